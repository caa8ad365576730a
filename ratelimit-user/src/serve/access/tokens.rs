//! Tokens by their hashes.

use std::fmt;

use axum::http::{HeaderMap, header::AUTHORIZATION};
use ring::digest::{SHA256, digest};
use subtle::{Choice, ConditionallySelectable as _, ConstantTimeEq as _};

use super::denied::Denied;
use crate::{
    config::requests::tokens::{Scope, Token},
    text::excerpt::message,
};

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
    /// To read those rules that the token may read.
    ReadSome,
    /// To read one rule.
    Read(&'a str),
    /// To change one rule.
    Change(&'a str),
}

/// The tokens of the file.
#[derive(Debug, Default)]
pub(in crate::serve) struct Tokens(Vec<Token>);

/// A caller with a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::serve) struct Caller(Token);

impl Tokens {
    pub(in crate::serve) fn new(tokens: Vec<Token>) -> Self {
        Self(tokens)
    }

    /// Returns the caller of a call with these headers, if it may do this.
    pub(in crate::serve) fn allow(&self, headers: &HeaderMap, need: Need<'_>) -> Result<Caller, Denied> {
        let token = self.find(bearer(headers).ok_or(Denied::Missing)?).ok_or(Denied::Unknown)?;
        if token.scopes.iter().any(|scope| need.is_met_by(scope)) {
            return Ok(Caller(token.clone()));
        }
        Err(Denied::Scope { token: token.name.clone(), what: need.to_string(), scope: need.scope() })
    }

    /// Finds a token. The time does not depend on which one it is, nor on how much of a hash is right.
    fn find(&self, text: &[u8]) -> Option<&Token> {
        if text.len() > LONGEST {
            return None;
        }
        let hash = digest(&SHA256, text);
        let (mut place, mut is_known) = (u32::MAX, Choice::from(0));
        for (number, token) in (0..).zip(&self.0) {
            let is_this = token.hash.ct_eq(hash.as_ref());
            place.conditional_assign(&number, is_this);
            is_known |= is_this;
        }
        bool::from(is_known).then(|| self.0.get(place as usize)).flatten()
    }
}

impl Caller {
    /// Returns the name of its token.
    pub(in crate::serve) fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns whether it may do this too.
    pub(in crate::serve) fn may(&self, need: Need<'_>) -> bool {
        self.0.scopes.iter().any(|scope| need.is_met_by(scope))
    }
}

impl Need<'_> {
    fn is_met_by(self, scope: &Scope) -> bool {
        match (self, scope) {
            (Self::Check, Scope::Check)
            | (Self::Metrics, Scope::Metrics)
            | (Self::ReadAll | Self::ReadSome | Self::Read(_), Scope::ReadRules)
            | (Self::ReadSome, Scope::Rules(_)) => true,
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
        ])
    }

    #[test]
    fn each_scope_allows_what_it_says_and_nothing_else() {
        let tokens = tokens();
        let needs = [
            Need::Check,
            Need::Metrics,
            Need::ReadAll,
            Need::ReadSome,
            Need::Read("team-a-1"),
            Need::Read("team-b-1"),
            Need::Change("team-a-1"),
            Need::Change("team-b-1"),
            Need::Change("shared"),
            Need::Change("shared-1"),
            Need::Change("team-a"),
        ];
        for (text, expected) in
            [("one", "x.........."), ("two", "...xx.x.x.."), ("three", ".xxxxx....."), ("four", "...xxxxxxxx")]
        {
            let headers = with(format!("Bearer {text}").as_bytes());
            let may = |need: &Need<'_>| if tokens.allow(&headers, *need).is_ok() { 'x' } else { '.' };
            assert_eq!(needs.iter().map(may).collect::<String>(), expected, "{text}");
        }
    }

    #[test]
    fn a_token_is_found_wherever_it_is_and_no_part_of_it_is() {
        let tokens = tokens();
        for (text, name) in [("one", "gateway"), ("two", "team-a"), ("three", "auditor"), ("four", "admin")] {
            assert_eq!(tokens.find(text.as_bytes()).unwrap().name, name);
        }
        for text in ["", "on", "onee", "One", "five"] {
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
        for value in [&b"Bearer five"[..], b"Bearer ", b"Bearer \xff"] {
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
