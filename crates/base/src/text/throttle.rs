//! How strict a limit is, as text.

use std::{fmt, str::FromStr};

use ratelimit_common::limits::policy::Policy;

use super::units::UnitError;

/// A value of `--throttle`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Throttle {
    Hard,
    Soft(u8),
    Elastic,
}

const THROTTLE_EXPECTED: UnitError =
    UnitError::new("expected hard, elastic, or soft with a share from 1% to 100%, such as soft=10%");

impl FromStr for Throttle {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        match (text, text.strip_prefix("soft=")) {
            ("hard", _) => Ok(Self::Hard),
            ("elastic", _) => Ok(Self::Elastic),
            (_, Some(share)) => {
                let digits = share.strip_suffix('%').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
                let percent =
                    digits.and_then(|digits| digits.parse().ok()).filter(|percent| (1..=100).contains(percent));
                percent.map(Self::Soft).ok_or(THROTTLE_EXPECTED)
            }
            _ => Err(THROTTLE_EXPECTED),
        }
    }
}

impl fmt::Display for Throttle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hard => f.write_str("hard"),
            Self::Soft(percent) => write!(f, "soft={percent}%"),
            Self::Elastic => f.write_str("elastic"),
        }
    }
}

impl Throttle {
    /// Returns the throttle of a policy.
    pub fn of(policy: &Policy) -> Self {
        match (policy.soft, policy.elastic) {
            (0, 0) => Self::Hard,
            (0, _) => Self::Elastic,
            (percent, _) => Self::Soft(percent),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throttles_are_read_and_written() {
        for (text, throttle) in
            [("hard", Throttle::Hard), ("elastic", Throttle::Elastic), ("soft=10%", Throttle::Soft(10))]
        {
            assert_eq!(text.parse(), Ok(throttle));
            assert_eq!(throttle.to_string(), text);
        }
        for text in
            ["", "soft", "soft=", "soft=10", "soft=0%", "soft=101%", "soft=+5%", "soft=1.5%", "Hard", "soft=999%"]
        {
            assert_eq!(text.parse::<Throttle>(), Err(THROTTLE_EXPECTED), "{text}");
        }
    }
}
