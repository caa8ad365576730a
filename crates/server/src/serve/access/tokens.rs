//! Tokens by their hashes.

use std::fmt;

use axum::http::{HeaderMap, header::AUTHORIZATION};
use ratelimit_base::text::excerpt::message;
use ring::digest::{SHA256, digest};
use subtle::{Choice, ConditionallySelectable as _, ConstantTimeEq as _};

use super::denied::Denied;
use crate::config::tokens::{Scope, Token, User};

/// The longest token, in bytes. A longer one is not hashed.
const LONGEST: usize = 512;

/// What a call needs.
#[derive(Debug, Clone, Copy)]
pub(in crate::serve) enum Need<'a> {
    /// To ask whether a request may go on.
    Check,
    /// To read the metrics.
    Metrics,
    /// To read the log, which has all rules.
    ReadAll,
    /// To see the pages for people.
    Visit,
    /// To read what the daemon shows of packets.
    Packets,
    /// To change rules for packets.
    ChangePackets,
    /// To read those rules that the token may read.
    ReadSome,
    /// To read one rule.
    Read(&'a str),
    /// To change one rule.
    Change(&'a str),
}

/// The tokens of the file, and the users that a proxy signs in.
#[derive(Debug, Default)]
pub(in crate::serve) struct Tokens {
    tokens: Vec<Token>,
    users: Vec<User>,
}

/// A caller with a token, or a user that a proxy has signed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::serve) struct Caller {
    name: String,
    scopes: Vec<Scope>,
}

impl Tokens {
    pub(in crate::serve) fn new(tokens: Vec<Token>) -> Self {
        Self { tokens, users: Vec::new() }
    }

    /// Returns them with the users of a proxy.
    pub(in crate::serve) fn with_users(self, users: Vec<User>) -> Self {
        Self { users, ..self }
    }

    /// Returns the hash of a token with this text, if its caller may do this.
    pub(in crate::serve) fn sign_in(&self, text: &str, need: Need<'_>) -> Result<[u8; 32], Denied> {
        let token = self.find(text.as_bytes()).ok_or(Denied::Unknown)?;
        Caller::of(token).allowed(need)?;
        Ok(token.hash)
    }

    /// Returns the caller whose token has this hash.
    pub(in crate::serve) fn of_hash(&self, hash: [u8; 32]) -> Option<Caller> {
        self.tokens.iter().find(|token| token.hash == hash).map(Caller::of)
    }

    /// Returns the user with this name. No token has a name like theirs.
    pub(in crate::serve) fn user(&self, name: &[u8]) -> Option<Caller> {
        let user = self.users.iter().find(|user| user.name.as_bytes() == name)?;
        Some(Caller { name: format!("user:{}", user.name), scopes: user.scopes.clone() })
    }

    /// Returns the caller of a call with these headers, if it may do this.
    pub(in crate::serve) fn allow(&self, headers: &HeaderMap, need: Need<'_>) -> Result<Caller, Denied> {
        let token = self.find(bearer(headers).ok_or(Denied::Missing)?).ok_or(Denied::Unknown)?;
        Caller::of(token).allowed(need)
    }

    /// Finds a token. The time does not depend on which one it is, nor on how much of a hash is right.
    fn find(&self, text: &[u8]) -> Option<&Token> {
        if text.len() > LONGEST {
            return None;
        }
        let hash = digest(&SHA256, text);
        let (mut place, mut is_known) = (u32::MAX, Choice::from(0));
        for (number, token) in (0..).zip(&self.tokens) {
            let is_this = token.hash.ct_eq(hash.as_ref());
            place.conditional_assign(&number, is_this);
            is_known |= is_this;
        }
        bool::from(is_known).then(|| self.tokens.get(place as usize)).flatten()
    }
}

impl Caller {
    fn of(token: &Token) -> Self {
        Self { name: token.name.clone(), scopes: token.scopes.clone() }
    }

    fn allowed(self, need: Need<'_>) -> Result<Self, Denied> {
        if self.may(need) {
            return Ok(self);
        }
        Err(Denied::Scope { token: self.name, what: need.to_string(), scope: need.scope() })
    }

    /// Returns the name of its token.
    pub(in crate::serve) fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether it may do this too.
    pub(in crate::serve) fn may(&self, need: Need<'_>) -> bool {
        self.scopes.iter().any(|scope| need.is_met_by(scope))
    }
}

impl Need<'_> {
    fn is_met_by(self, scope: &Scope) -> bool {
        match (self, scope) {
            (Self::Check, Scope::Check)
            | (Self::Metrics, Scope::Metrics)
            | (Self::Visit | Self::Packets, Scope::Packets)
            | (Self::Visit | Self::Packets | Self::ChangePackets, Scope::ChangePackets)
            | (Self::Visit | Self::ReadAll | Self::ReadSome | Self::Read(_), Scope::ReadRules)
            | (Self::Visit | Self::ReadSome, Scope::Rules(_)) => true,
            (Self::Read(name) | Self::Change(name), Scope::Rules(pattern)) => pattern.has(name),
            _ => false,
        }
    }

    /// Returns the scope that is missing.
    fn scope(self) -> String {
        match self {
            Self::Check => Scope::Check.to_string(),
            Self::Metrics => Scope::Metrics.to_string(),
            Self::ReadAll => Scope::ReadRules.to_string(),
            Self::Visit => format!("{}, {}, or rules: with the name of a rule", Scope::ReadRules, Scope::Packets),
            Self::Packets => format!("{}, or {} to change them too", Scope::Packets, Scope::ChangePackets),
            Self::ChangePackets => Scope::ChangePackets.to_string(),
            Self::ReadSome => format!("{}, or rules: with the name of a rule", Scope::ReadRules),
            Self::Read(name) => format!("rules:{}, or {} to read only", message(name), Scope::ReadRules),
            Self::Change(name) => format!("rules:{}", message(name)),
        }
    }
}

impl fmt::Display for Need<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Check => f.write_str("ask about requests"),
            Self::Metrics => f.write_str("read the metrics"),
            Self::ReadAll => f.write_str("read the log of changes"),
            Self::Visit => f.write_str("see the console"),
            Self::Packets => f.write_str("read about packets"),
            Self::ChangePackets => f.write_str("change rules for packets"),
            Self::ReadSome => f.write_str("read rules"),
            Self::Read(name) => write!(f, "read the rule {}", message(name)),
            Self::Change(name) => write!(f, "change the rule {}", message(name)),
        }
    }
}

/// Returns the token of a call. The name of the scheme is in any case (RFC 9110).
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn token(name: &str, text: &str, scopes: &[&str]) -> Token {
        let hash = digest(&SHA256, text.as_bytes()).as_ref().try_into().unwrap();
        Token { name: name.to_owned(), hash, scopes: scopes.iter().map(|scope| scope.parse().unwrap()).collect() }
    }

    fn with(value: &[u8]) -> HeaderMap {
        HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_bytes(value).unwrap())])
    }

    fn tokens() -> Tokens {
        Tokens::new(vec![
            token("gateway", "one", &["check"]),
            token("team-a", "two", &["rules:team-a-*", "rules:shared"]),
            token("auditor", "three", &["rules:read", "metrics"]),
            token("admin", "four", &["rules:*"]),
            token("network", "five", &["packets:read"]),
            token("edge", "six", &["packets:write"]),
        ])
    }

    #[test]
    fn each_scope_allows_what_it_says_and_nothing_else() {
        let tokens = tokens();
        let needs = [
            Need::Check,
            Need::Metrics,
            Need::ReadAll,
            Need::Visit,
            Need::Packets,
            Need::ChangePackets,
            Need::ReadSome,
            Need::Read("team-a-1"),
            Need::Read("team-b-1"),
            Need::Change("team-a-1"),
            Need::Change("team-b-1"),
            Need::Change("shared"),
            Need::Change("shared-1"),
            Need::Change("team-a"),
        ];
        for (text, expected) in [
            ("one", "x............."),
            ("two", "...x..xx.x.x.."),
            ("three", ".xxx..xxx....."),
            ("four", "...x..xxxxxxxx"),
            ("five", "...xx........."),
            ("six", "...xxx........"),
        ] {
            let headers = with(format!("Bearer {text}").as_bytes());
            let may = |need: &Need<'_>| if tokens.allow(&headers, *need).is_ok() { 'x' } else { '.' };
            assert_eq!(needs.iter().map(may).collect::<String>(), expected, "{text}");
        }
    }

    #[test]
    fn a_token_is_found_wherever_it_is_and_no_part_of_it_is() {
        let tokens = tokens();
        for (text, name) in [
            ("one", "gateway"),
            ("two", "team-a"),
            ("three", "auditor"),
            ("four", "admin"),
            ("five", "network"),
            ("six", "edge"),
        ] {
            assert_eq!(tokens.find(text.as_bytes()).unwrap().name, name);
        }
        for text in ["", "on", "onee", "One", "seven"] {
            assert_eq!(tokens.find(text.as_bytes()), None, "{text}");
        }
        assert_eq!(Tokens::default().find(b"one"), None);
        let long = "x".repeat(LONGEST + 1);
        assert_eq!(Tokens::new(vec![token("long", &long, &["check"])]).find(long.as_bytes()), None);
    }

    #[test]
    fn a_denied_call_says_what_is_missing() {
        let tokens = tokens();
        let denied = |headers: &HeaderMap, need| tokens.allow(headers, need).unwrap_err();
        assert_eq!(denied(&HeaderMap::new(), Need::Check), Denied::Missing);
        for value in ["Basic one", "Bearerone", "one", "bearer"] {
            assert_eq!(denied(&with(value.as_bytes()), Need::Check), Denied::Missing, "{value}");
        }
        for value in [&b"Bearer seven"[..], b"Bearer ", b"Bearer \xff"] {
            assert_eq!(denied(&with(value), Need::Check), Denied::Unknown);
        }
        assert!(tokens.allow(&with(b"BEARER  one "), Need::Check).is_ok());
        for (text, need, what, scope) in [
            ("two", Need::Check, "ask about requests", "check"),
            ("two", Need::Metrics, "read the metrics", "metrics"),
            ("two", Need::ReadAll, "read the log of changes", "rules:read"),
            ("one", Need::ReadSome, "read rules", "rules:read, or rules: with the name of a rule"),
            ("two", Need::Read("team-b-1"), "read the rule team-b-1", "rules:team-b-1, or rules:read to read only"),
            ("two", Need::Change("team-b-1"), "change the rule team-b-1", "rules:team-b-1"),
            ("two", Need::Change("\x1b[2J"), "change the rule \\u{1b}[2J", "rules:\\u{1b}[2J"),
        ] {
            let token = if text == "one" { "gateway" } else { "team-a" };
            let expected = format!(
                "the token {token} may not {what}: the operator of the server can give it the scope {scope}, in its [[token]]"
            );
            assert_eq!(denied(&with(format!("Bearer {text}").as_bytes()), need).to_string(), expected);
        }
    }
}
