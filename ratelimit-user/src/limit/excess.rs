//! Options about packets over a limit.

use std::{fmt, str::FromStr, time::Duration};

use anyhow::{Result, ensure};
use clap::ValueEnum;
use ratelimit_common::limits::{
    ban_history::MOST_DROPS,
    policy::{Ban, DROP, Policy, REJECT, SHADOW},
};

use crate::text::units::{self, UnitError};

/// The default cap of bans, as a multiple of the first ban.
const DEFAULT_CAP: u64 = 8;

/// The options about packets over a limit.
#[derive(Debug, Clone, Copy, clap::Args)]
#[command(next_help_heading = "Limit")]
pub(crate) struct Excess {
    /// How strict the limit is: hard; soft=10% (that share of the limit passes on top, and is counted separately); or
    /// elastic (packets over the limit pass while the interface is below its `attach --capacity`) [default: hard]
    #[arg(long, value_name = "hard|soft=PERCENT|elastic")]
    throttle: Option<Throttle>,
    /// What happens to packets over the limit: drop; reject (drop, and answer with an ICMP error or a TCP reset); or
    /// shadow (pass, and count as packets that would be dropped) [default: drop]
    #[arg(long, value_enum, value_name = "drop|reject|shadow", hide_possible_values = true)]
    over_limit: Option<OverLimit>,
    /// Drop all packets of a source for this time once it exceeds the limit: 90s, 10m, 2h, 7d. Beware: forged packets
    /// can get the real owner of an address banned
    #[arg(long, value_name = "DURATION", value_parser = units::duration)]
    ban: Option<Duration>,
    /// Ban only after this many drops within a minute [default: 1]
    #[arg(long, value_name = "N", requires = "ban", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_DROPS)))]
    ban_after: Option<u32>,
    /// Longest ban. Each repeated ban of a source lasts twice as long, up to this time [default: 8 times --ban]
    #[arg(long, value_name = "DURATION", requires = "ban", value_parser = units::duration)]
    ban_cap: Option<Duration>,
}

/// A value of `--throttle`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Throttle {
    Hard,
    Soft(u8),
    Elastic,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OverLimit {
    Drop,
    Reject,
    Shadow,
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
    pub(crate) fn of(policy: &Policy) -> Self {
        match (policy.soft, policy.elastic) {
            (0, 0) => Self::Hard,
            (0, _) => Self::Elastic,
            (percent, _) => Self::Soft(percent),
        }
    }
}

/// Returns what happens to packets over the limit of a policy, in one word.
pub(crate) fn over_limit(policy: &Policy) -> &'static str {
    match policy.over_limit {
        SHADOW => "shadow",
        REJECT => "reject",
        _ => "drop",
    }
}

/// Returns the default cap for a first ban of this length.
const fn default_cap(time: u64) -> u64 {
    time.saturating_mul(DEFAULT_CAP)
}

/// Returns a ban in words, without what equals the defaults. None if there is no ban.
pub(crate) fn ban(ban: &Ban) -> Option<String> {
    let Ban { time, most, after, .. } = *ban;
    let duration = |nanoseconds| units::write_duration(Duration::from_nanos(nanoseconds));
    let after = if after > 1 { format!(" after {after}") } else { String::new() };
    let cap = if most == default_cap(time) { String::new() } else { format!(" up to {}", duration(most)) };
    (time != 0).then(|| format!("{}{after}{cap}", duration(time)))
}

impl Excess {
    /// Returns whether any of the options is given.
    pub(crate) fn is_given(&self) -> bool {
        self.throttle.is_some() || self.over_limit.is_some() || self.ban.is_some()
    }

    /// Adds the options to a policy. `has_limits` and `has_parents` tell what the rule consists of.
    pub(crate) fn apply(&self, policy: Policy, has_limits: bool, has_parents: bool) -> Result<Policy> {
        let throttle = self.throttle.unwrap_or(Throttle::Hard);
        let soft = if let Throttle::Soft(percent) = throttle { percent } else { 0 };
        let over_limit = match self.over_limit {
            Some(OverLimit::Reject) => REJECT,
            Some(OverLimit::Shadow) => SHADOW,
            Some(OverLimit::Drop) | None => DROP,
        };
        let is_own = has_limits && !has_parents;
        ensure!(soft == 0 || is_own, "--throttle soft needs --packets or --bytes, and cannot be used with --parent");
        ensure!(self.ban.is_none() || is_own, "--ban needs --packets or --bytes, and cannot be used with --parent");
        ensure!(
            self.ban.is_none() || over_limit != SHADOW,
            "--ban cannot be used with --over-limit shadow, which lets packets pass: omit one of the two options"
        );
        let nanoseconds = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let time = self.ban.map_or(0, nanoseconds);
        let most = self.ban_cap.map_or(default_cap(time), nanoseconds);
        ensure!(most >= time, "--ban-cap is shorter than --ban: give at least the time of --ban");
        let ban = match time {
            0 => Ban::default(),
            _ => Ban { time, most, after: self.ban_after.unwrap_or(1), reserved: 0 },
        };
        Ok(Policy { soft, elastic: u8::from(throttle == Throttle::Elastic), over_limit, ban, ..policy })
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
