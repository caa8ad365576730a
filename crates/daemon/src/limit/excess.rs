//! Options about packets over a limit.

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::ValueEnum;
use ratelimit_base::text::{throttle::Throttle, units};
use ratelimit_common::limits::{
    ban_history::MOST_DROPS,
    policy::{Ban, DROP, Policy, REJECT, SHADOW},
};

use super::or_off::{self, OrOff};

/// The default cap of bans, as a multiple of the first ban.
const DEFAULT_CAP: u64 = 8;

/// The options about packets over a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Limit")]
pub struct Excess {
    /// How strict the limit is: hard; soft=10% (that share of the limit passes on top, and is counted separately); or
    /// elastic (packets over the limit pass while the interface is below its `attach --capacity`) [default: hard]
    #[arg(long, value_name = "hard|soft=PERCENT|elastic")]
    throttle: Option<Throttle>,
    /// What happens to packets over the limit: drop; reject (drop, and answer with an ICMP error or a TCP reset); or
    /// shadow (pass, and count as packets that would be dropped) [default: drop]
    #[arg(long, value_enum, value_name = "drop|reject|shadow", hide_possible_values = true)]
    over_limit: Option<OverLimit>,
    /// Drop all packets of a source for this time once it exceeds the limit: 90s, 10m, 2h, 7d. Beware: forged packets
    /// can get the real owner of an address banned. off: no ban
    #[arg(long, value_name = "DURATION|off", value_parser = or_off::duration)]
    ban: Option<OrOff<Duration>>,
    /// Ban only after this many drops within a minute [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_DROPS)))]
    ban_after: Option<u32>,
    /// Longest ban. Each repeated ban of a source lasts twice as long, up to this time [default: 8 times --ban]
    #[arg(long, value_name = "DURATION", value_parser = units::duration)]
    ban_cap: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OverLimit {
    Drop,
    Reject,
    Shadow,
}

/// Returns what happens to packets over the limit of a policy, in one word.
pub fn over_limit(policy: &Policy) -> &'static str {
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
pub fn ban(ban: &Ban) -> Option<String> {
    let Ban { time, most, after, .. } = *ban;
    let duration = |nanoseconds| units::write_duration(Duration::from_nanos(nanoseconds));
    let after = if after > 1 { format!(" after {after}") } else { String::new() };
    let cap = if most == default_cap(time) { String::new() } else { format!(" up to {}", duration(most)) };
    (time != 0).then(|| format!("{}{after}{cap}", duration(time)))
}

impl Excess {
    /// Returns whether a throttle is given.
    pub(super) fn has_throttle(&self) -> bool {
        self.throttle.is_some()
    }

    /// Returns whether any of the options is given.
    pub fn is_given(&self) -> bool {
        let has_ban = self.ban.is_some() || self.ban_after.is_some() || self.ban_cap.is_some();
        has_ban || self.throttle.is_some() || self.over_limit.is_some()
    }

    /// Returns the options that a policy has, as far as they differ from the defaults.
    pub(super) fn of(policy: &Policy) -> Self {
        let Ban { time, most, after, .. } = policy.ban;
        let over_limit = match policy.over_limit {
            SHADOW => Some(OverLimit::Shadow),
            REJECT => Some(OverLimit::Reject),
            _ => None,
        };
        Self {
            throttle: Some(Throttle::of(policy)).filter(|throttle| *throttle != Throttle::Hard),
            over_limit,
            ban: (time != 0).then(|| OrOff::To(Duration::from_nanos(time))),
            ban_after: Some(after).filter(|after| *after > 1),
            ban_cap: (most != default_cap(time)).then(|| Duration::from_nanos(most)),
        }
    }

    /// Returns these options, and those of `before` that are not given. Without a ban, nothing of one is kept.
    pub(super) fn over(&self, before: &Self) -> Self {
        let of_ban = if self.ban == Some(OrOff::Off) { &Self::NONE } else { before };
        Self {
            throttle: self.throttle.or(before.throttle),
            over_limit: self.over_limit.or(before.over_limit),
            ban: self.ban.or(before.ban),
            ban_after: self.ban_after.or(of_ban.ban_after),
            ban_cap: self.ban_cap.or(of_ban.ban_cap),
        }
    }

    /// Returns the options that are not `given`: each as an option, with the one that takes it away, and the others.
    pub(super) fn kept(&self, given: &Self) -> Vec<(String, &'static str, Self)> {
        let mut kept = Vec::new();
        if let (None, Some(throttle)) = (given.throttle, self.throttle) {
            let without = Self { throttle: None, ..*self };
            kept.push((format!("--throttle {throttle}"), "--throttle hard", without));
        }
        if let (None, Some(over_limit)) = (given.over_limit, self.over_limit) {
            let word = if over_limit == OverLimit::Shadow { "shadow" } else { "reject" };
            kept.push((format!("--over-limit {word}"), "--over-limit drop", Self { over_limit: None, ..*self }));
        }
        if let (None, Some(OrOff::To(time))) = (given.ban, self.ban) {
            let without = Self { ban: None, ban_after: None, ban_cap: None, ..*self };
            kept.push((format!("--ban {}", units::exact_duration(time)), "--ban off", without));
        } else if let (None, Some(cap)) = (given.ban_cap, self.ban_cap) {
            let has = format!("--ban-cap {}", units::exact_duration(cap));
            kept.push((has, "another --ban-cap", Self { ban_cap: None, ..*self }));
        }
        kept
    }

    const NONE: Self = Self { throttle: None, over_limit: None, ban: None, ban_after: None, ban_cap: None };

    /// Adds the options to a policy. `has_limits` and `has_parents` tell what the rule consists of.
    pub fn apply(&self, policy: Policy, has_limits: bool, has_parents: bool) -> Result<Policy> {
        let throttle = self.throttle.unwrap_or(Throttle::Hard);
        let soft = if let Throttle::Soft(percent) = throttle { percent } else { 0 };
        let over_limit = match self.over_limit {
            Some(OverLimit::Reject) => REJECT,
            Some(OverLimit::Shadow) => SHADOW,
            Some(OverLimit::Drop) | None => DROP,
        };
        let is_own = has_limits && !has_parents;
        ensure!(soft == 0 || is_own, "--throttle soft needs --packets or --bytes, and cannot be used with --parent");
        let is_banning = self.ban.and_then(OrOff::value);
        ensure!(
            is_banning.is_some() || self.ban_after.is_none() && self.ban_cap.is_none(),
            "--ban-after and --ban-cap need --ban: also give --ban DURATION"
        );
        ensure!(is_banning.is_none() || is_own, "--ban needs --packets or --bytes, and cannot be used with --parent");
        ensure!(
            is_banning.is_none() || over_limit != SHADOW,
            "--ban cannot be used with --over-limit shadow, which lets packets pass: omit one of the two options"
        );
        let nanoseconds = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let time = is_banning.map_or(0, nanoseconds);
        let most = self.ban_cap.map_or(default_cap(time), nanoseconds);
        ensure!(most >= time, "--ban-cap is shorter than --ban: give at least the time of --ban");
        let ban = match time {
            0 => Ban::default(),
            _ => Ban { time, most, after: self.ban_after.unwrap_or(1), reserved: 0 },
        };
        Ok(Policy { soft, elastic: u8::from(throttle == Throttle::Elastic), over_limit, ban, ..policy })
    }
}
