//! The argument that names the sources of a rule.

use std::str::FromStr;

/// The message for `--skip-bad` without a list.
pub(crate) const NO_LIST: &str =
    "--skip-bad applies to prefixes on standard input: give - instead of the prefix, or omit --skip-bad";

/// The sources of a rule, or `-` for standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OneOrMany<T> {
    /// One value, given as the argument.
    One(T),
    /// `-`.
    Many,
}

impl<T: FromStr> FromStr for OneOrMany<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        if text == "-" { Ok(Self::Many) } else { text.parse().map(Self::One) }
    }
}
