//! Which rules share a budget: those that the same tokens may write. So what one team writes takes nothing from others.

use ratelimit_fleet::kept::rules::{Part, REQUESTS};

use crate::config::tokens::{Pattern, Scope, Token, User};

/// The fewest changes that a part of a log keeps.
const FEWEST: usize = 10;

/// The teams of a file. Each has those names of rules that a token or a user is the first to have in its scopes. A further
/// token with the same names, as in a rotation, is of the same team.
#[derive(Debug, Clone, Default)]
pub(in crate::serve) struct Teams(Vec<Vec<Pattern>>);

impl Teams {
    /// Returns those of these tokens and users.
    pub(super) fn of(tokens: &[Token], users: &[User]) -> Self {
        let mut teams: Vec<Vec<Pattern>> = Vec::new();
        let scopes = tokens.iter().map(|token| &token.scopes).chain(users.iter().map(|user| &user.scopes));
        for scopes in scopes {
            let patterns =
                scopes.iter().filter_map(|scope| if let Scope::Rules(pattern) = scope { Some(pattern) } else { None });
            let is_new = |pattern: &&Pattern| !teams.iter().flatten().any(|known| known == *pattern);
            let new: Vec<_> = patterns.filter(is_new).cloned().collect();
            if !new.is_empty() {
                teams.push(new);
            }
        }
        Self(teams)
    }

    /// Returns how many there are.
    pub(super) fn count(&self) -> usize {
        self.0.len()
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
        assert_eq!(teams.parts(), ["*", "team-a-*", "shared", "team-*", "team-a-1", ""]);
    }
}
