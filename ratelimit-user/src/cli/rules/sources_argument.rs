//! Arguments that name addresses and prefixes. Bits of an address beyond its prefix are cut, as in lists, and the answer
//! says so.

use std::{
    fmt::Display,
    io::{self, Write},
    net::IpAddr,
    str::FromStr,
};

use anyhow::{Result, bail, ensure};
use ratelimit_base::text::prefix::{Prefix, PrefixError};
use ratelimit_dataplane::rules::target::{Sources, SourcesError};

/// The message for `--skip-bad` without a list.
const NO_LIST: &str =
    "--skip-bad applies to prefixes on standard input: give - instead of the prefix, or omit --skip-bad";

/// A value of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Given<T> {
    pub(crate) value: T,
    /// The address that was given, if it has bits beyond the prefix.
    cut: Option<IpAddr>,
}

impl FromStr for Given<Prefix> {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        match text.parse() {
            Err(PrefixError::HostBits(value, address)) => Ok(Self { value, cut: Some(address) }),
            outcome => outcome.map(|value| Self { value, cut: None }),
        }
    }
}

impl FromStr for Given<Sources> {
    type Err = SourcesError;

    fn from_str(text: &str) -> Result<Self, SourcesError> {
        match text.parse() {
            Err(SourcesError::Prefix(PrefixError::HostBits(prefix, address))) => {
                Ok(Self { value: Sources::Prefix(prefix), cut: Some(address) })
            }
            outcome => outcome.map(|value| Self { value, cut: None }),
        }
    }
}

impl Given<Prefix> {
    /// Returns the argument as it was given, if bits of it were cut.
    pub(crate) fn written(&self) -> Option<String> {
        self.cut.map(|address| format!("{address}/{}", self.value.bits()))
    }

    /// Returns what was cut, in words.
    pub(crate) fn cut(&self) -> Option<String> {
        self.written().map(|written| format!("{written} is {}", self.value))
    }

    /// Says on standard error what was cut. This is for answers without a place for it.
    pub(crate) fn say_cut(&self) -> io::Result<()> {
        self.cut().map_or(Ok(()), |cut| writeln!(io::stderr(), "ratelimit: {cut}"))
    }
}

/// The arguments of which bits were cut.
#[derive(Debug, Default)]
pub(crate) struct Cuts(Vec<Given<Prefix>>);

impl Cuts {
    /// Returns those among some arguments.
    pub(crate) fn of<T: Copy + Into<Sources>>(all: &[Given<T>]) -> Self {
        let prefix = |given: &Given<T>| match given.value.into() {
            Sources::Prefix(value) if given.cut.is_some() => Some(Given { value, cut: given.cut }),
            _ => None,
        };
        Self(all.iter().filter_map(prefix).collect())
    }

    /// Returns how the argument for these sources was written, if bits of it were cut.
    pub(super) fn written(&self, sources: Sources) -> Option<String> {
        self.0.iter().find(|given| Sources::Prefix(given.value) == sources)?.written()
    }

    /// Writes one line for each.
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        self.0.iter().filter_map(Given::cut).try_for_each(|cut| writeln!(out, "{cut}"))
    }
}

/// The sources of a rule, or `-` for standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OneOrMany<T> {
    /// One value, given as the argument.
    One(Given<T>),
    /// `-`.
    Many,
}

impl<T> FromStr for OneOrMany<T>
where
    Given<T>: FromStr,
{
    type Err = <Given<T> as FromStr>::Err;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "-" { Ok(Self::Many) } else { text.parse().map(Self::One) }
    }
}

/// Returns the bits of a network mask such as `255.255.255.0`. No packet has such a source.
fn mask(sources: Sources) -> Option<u32> {
    let Sources::Prefix(prefix) = sources else { return None };
    let IpAddr::V4(address) = prefix.address() else { return None };
    let (bits, is_reserved) = (address.to_bits().leading_ones(), address.octets()[0] >= 240);
    (prefix.is_host() && is_reserved && bits + address.to_bits().trailing_zeros() == 32).then_some(bits)
}

/// Returns the values of the arguments, each once, and what was cut. None if the prefixes are on standard input.
///
/// # Errors
///
/// Fails if `-` is not alone, if a value is given twice, or if `skip_bad` is set without `-`.
pub(crate) fn listed<T: Copy + PartialEq + Display + Into<Sources>>(
    arguments: &[OneOrMany<T>],
    skip_bad: bool,
) -> Result<Option<(Vec<T>, Cuts)>> {
    let mut all: Vec<Given<T>> = Vec::with_capacity(arguments.len());
    for argument in arguments {
        match argument {
            OneOrMany::One(Given { value, .. }) if all.iter().any(|given| given.value == *value) => {
                bail!("{value} is given twice: omit one of the two")
            }
            OneOrMany::One(given) => {
                if let Some((before, bits)) = all.last().zip(mask((given.value).into())) {
                    bail!("{} is a mask: write {}/{bits}", given.value, before.value);
                }
                all.push(*given);
            }
            OneOrMany::Many => {
                ensure!(arguments.len() == 1, "- reads prefixes from standard input: give it alone, or only prefixes");
            }
        }
    }
    if all.is_empty() {
        return Ok(None);
    }
    ensure!(!skip_bad, NO_LIST);
    Ok(Some((all.iter().map(|given| given.value).collect(), Cuts::of(&all))))
}
