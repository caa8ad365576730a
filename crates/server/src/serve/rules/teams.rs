//! Which rules share a budget: those that the same tokens may write. So what one team writes takes nothing from others.

use std::collections::{BTreeMap, BTreeSet};

use ratelimit_fleet::kept::rules::{Part, REQUESTS};

use crate::config::tokens::{Pattern, Scope, Token, User};

/// The fewest changes that a part of a log keeps.
const FEWEST: usize = 10;

/// The teams of a file. Each has those names of rules that the same tokens and users have in their scopes, in whatever order
/// the file has them. A further token with the same names, as in a rotation, is of the same team.
#[derive(Debug, Clone, Default)]
pub(in crate::serve) struct Teams(Vec<Vec<Pattern>>);

impl Teams {
    /// Returns those of these tokens and users.
    pub(super) fn of(tokens: &[Token], users: &[User]) -> Self {
        let mut holders: BTreeMap<&Pattern, BTreeSet<usize>> = BTreeMap::new();
        let scopes = tokens.iter().map(|token| &token.scopes).chain(users.iter().map(|user| &user.scopes));
        for (holder, scope) in scopes.enumerate().flat_map(|(holder, scopes)| scopes.iter().map(move |of| (holder, of)))
        {
            if let Scope::Rules(pattern) = scope {
                holders.entry(pattern).or_default().insert(holder);
            }
        }
        let mut teams: BTreeMap<BTreeSet<usize>, Vec<Pattern>> = BTreeMap::new();
        for (pattern, holders) in holders {
            teams.entry(holders).or_default().push(pattern.clone());
        }
        Self(teams.into_values().collect())
    }

    /// Returns how many there are.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns into how many equal parts the rules and the memory of callers are divided. Rules that no token may write any
    /// more have a part, unless some token may write all. Nothing that callers write changes the number.
    pub(super) fn shares(&self) -> usize {
        let have_all = self.0.iter().flatten().any(Pattern::has_all);
        self.count() + usize::from(!have_all)
    }

    /// Returns the team of a rule: that with the narrowest name. None if no token may write the rule any more.
    pub(super) fn of_rule(&self, name: &str) -> Option<usize> {
        self.narrowest(name).map(|(team, _)| team)
    }

    fn narrowest(&self, name: &str) -> Option<(usize, &Pattern)> {
        let each = self.0.iter().enumerate().flat_map(|(team, patterns)| patterns.iter().map(move |this| (team, this)));
        each.filter(|(_, pattern)| pattern.has(name)).max_by_key(|(_, pattern)| pattern.narrowness())
    }

    /// Returns the part of the log of a fleet for changes of a rule. It has the name of the scope, so that other scopes can
    /// come and go. Servers with the same tokens find the same parts.
    pub(super) fn part(&self, name: &str) -> Part {
        let most = REQUESTS.logged / (self.count() + 1);
        match self.narrowest(name) {
            Some((team, pattern)) => {
                let of_team = self.0.get(team).map_or(1, Vec::len);
                Part { name: pattern.to_string(), most: (most / of_team).max(FEWEST) }
            }
            None => Part { name: String::new(), most },
        }
    }

    /// Returns the names of all parts.
    pub(super) fn parts(&self) -> Vec<String> {
        self.0.iter().flatten().map(Pattern::to_string).chain([String::new()]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(scopes: &[&str]) -> Token {
        Token {
            name: String::new(),
            hash: [0; 32],
            scopes: scopes.iter().map(|scope| scope.parse().unwrap()).collect(),
        }
    }

    #[test]
    fn a_rule_belongs_to_the_token_with_the_narrowest_name() {
        let tokens = [
            token(&["check", "rules:*", "rules:read"]),
            token(&["rules:team-a-*", "rules:shared"]),
            token(&["rules:team-*"]),
            token(&["rules:shared", "rules:team-a-*"]),
            token(&["metrics"]),
        ];
        let user = User { name: "alice".to_owned(), scopes: vec!["rules:team-a-1".parse().unwrap()] };
        let teams = Teams::of(&tokens, &[user]);
        assert_eq!(teams.count(), 4);
        for (name, team) in
            [("other", 0), ("shared", 1), ("shared-1", 0), ("team-a-2", 1), ("team-b", 2), ("team-a-1", 3)]
        {
            assert_eq!(teams.of_rule(name), Some(team), "{name}");
        }
        assert_eq!(Teams::of(&tokens[1..], &[]).of_rule("other"), None);
        assert_eq!((Teams::default().count(), Teams::default().of_rule("a")), (0, None));
        let part = |name| {
            let Part { name, most } = teams.part(name);
            (name, most)
        };
        assert_eq!([part("other"), part("shared")], [("*".to_owned(), 200), ("shared".to_owned(), 100)]);
        assert_eq!(teams.parts(), ["*", "shared", "team-a-*", "team-*", "team-a-1", ""]);
    }

    #[test]
    fn teams_do_not_depend_on_the_order_of_tokens() {
        let (ci, a, b) = (token(&["rules:a-*", "rules:b-*"]), token(&["rules:a-*"]), token(&["rules:b-*"]));
        for tokens in [[ci.clone(), a.clone(), b.clone()], [a.clone(), ci.clone(), b.clone()], [b, a, ci]] {
            let teams = Teams::of(&tokens, &[]);
            assert_eq!(teams.count(), 2);
            assert_ne!(teams.of_rule("a-1"), teams.of_rule("b-1"));
        }
    }

    #[test]
    fn rules_of_nobody_have_a_part_unless_a_token_may_write_all() {
        let shares = |scopes: &[&str]| Teams::of(&[token(scopes)], &[]).shares();
        assert_eq!((Teams::default().shares(), shares(&["check"])), (1, 1));
        assert_eq!((shares(&["rules:a-*"]), shares(&["rules:*"]), shares(&["rules:*", "rules:a-*"])), (2, 1, 1));
    }
}
