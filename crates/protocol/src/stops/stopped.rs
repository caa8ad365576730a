//! A client that a host of a fleet limits, as hosts tell it to each other.

use std::{fmt, str::FromStr};

use ratelimit_base::text::prefix::Prefix;

use super::request::is_rule;

/// A client that a host limits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Stopped {
    /// The address or the prefix.
    pub source: Prefix,
    /// The TCP port.
    pub port: u16,
    /// The rule for requests that the client exceeds.
    pub rule: String,
}

/// An entry that makes no sense.
#[derive(Debug, PartialEq, Eq)]
pub struct Senseless;

/// Writes `203.0.113.7 443 login`.
impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, port, rule } = self;
        write!(f, "{source} {port} {rule}")
    }
}

impl FromStr for Stopped {
    type Err = Senseless;

    fn from_str(text: &str) -> Result<Self, Senseless> {
        let mut words = text.split(' ');
        let (Some(source), Some(port), Some(rule), None) = (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(Senseless);
        };
        let (source, port) = (source.parse().map_err(|_| Senseless)?, port.parse().map_err(|_| Senseless)?);
        if port == 0 || !is_rule(rule) {
            return Err(Senseless);
        }
        Ok(Self { source, port, rule: rule.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_as_it_was_written_and_others_make_no_sense() {
        for text in ["203.0.113.7 443 login", "2001:db8::/64 8443 a.b-c_1"] {
            assert_eq!(text.parse::<Stopped>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "203.0.113.7",
            "203.0.113.7 443",
            "203.0.113.7 0 a",
            "203.0.113.7 65536 a",
            "x 1 a",
            "203.0.113.7 1 A",
            "203.0.113.7 1 a b",
            "203.0.113.7/24 1 a",
        ] {
            assert_eq!(text.parse::<Stopped>(), Err(Senseless), "{text}");
        }
        // A host of an earlier version that read one would leave it out.
        assert!("203.0.113.7 443 login".parse::<Prefix>().is_err());
    }
}
