//! The argument that names the sources of rules.

use std::{fmt::Display, str::FromStr};

use anyhow::{Result, bail, ensure};

/// The message for `--skip-bad` without a list.
const NO_LIST: &str =
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

/// Returns the values of the arguments, each once. None if the prefixes are on standard input.
///
/// # Errors
///
/// Fails if `-` is not alone, if a value is given twice, or if `skip_bad` is set without `-`.
pub(crate) fn listed<T: Copy + PartialEq + Display>(
    arguments: &[OneOrMany<T>],
    skip_bad: bool,
) -> Result<Option<Vec<T>>> {
    let mut values = Vec::with_capacity(arguments.len());
    for argument in arguments {
        match argument {
            OneOrMany::One(value) if values.contains(value) => bail!("{value} is given twice: omit one of the two"),
            OneOrMany::One(value) => values.push(*value),
            OneOrMany::Many => {
                ensure!(arguments.len() == 1, "- reads prefixes from standard input: give it alone, or only prefixes");
            }
        }
    }
    if values.is_empty() {
        return Ok(None);
    }
    ensure!(!skip_bad, NO_LIST);
    Ok(Some(values))
}
