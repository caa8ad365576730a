//! Names of rules, attributes and tokens.

use std::str::FromStr;

/// The longest name, in bytes.
const NAME: usize = 64;

/// Names that no rule has: the HTTP interface has other things at their paths, and browsers leave dots out of paths.
const RESERVED: [&str; 3] = ["log", ".", ".."];

/// Returns whether no rule can have this name.
#[must_use]
pub fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// A name of a rule, an attribute or a token.
#[derive(Debug, Clone)]
pub(super) struct Name(pub(super) String);

impl FromStr for Name {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // Headers carry attributes, and do not tell large letters from small ones.
        let is_good =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_' | b'.');
        ((1..=NAME).contains(&text.len()) && text.bytes().all(is_good))
            .then(|| Self(text.to_owned()))
            .ok_or("expected 1 to 64 small letters, digits, `-`, `_` and `.`")
    }
}

/// A name of a rule.
#[derive(Debug, Clone)]
pub(super) struct RuleName(pub(super) String);

impl FromStr for RuleName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Name(name) = text.parse()?;
        if is_reserved(&name) { Err("this name is reserved: choose another name") } else { Ok(Self(name)) }
    }
}
