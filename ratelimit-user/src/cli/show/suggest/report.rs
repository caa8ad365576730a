//! Proposed limits as text and as JSON.

use std::{
    io::{self, Write},
    time::Duration,
};

use ratelimit_base::text::{
    pasted,
    service::ServiceName,
    units::{PacketRate, write_duration},
};
use ratelimit_common::{
    identity::service::Service,
    limits::{
        limit::{Rate, SECOND},
        policy::{LIMIT, Policy},
    },
};
use serde::Serialize;

use super::proposal::{Proposal, percentile};
use crate::cli::print::{
    in_shadow,
    output::{self, count},
};

/// The number of sources that text names for each service.
const SHOWN: usize = 10;

/// What an enforced limit means for the numbers.
const WHILE_ENFORCED: &str = "  The numbers have the packets that it refuses. Compare the proposal with it: attackers raise it, so deny them first.";

/// How many times the median a percentile is if it may be that of attackers.
const MUCH: u64 = 10;

/// The highest limit of packets per second.
const MOST: u64 = 100_000_000;

/// What was observed, and the limits that fit.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) seconds: f64,
    pub(super) percentile: u8,
    pub(super) services: Vec<OfService>,
    /// Packets of sources that got no bucket meanwhile.
    pub(super) not_admitted: u64,
    /// Whether all sources with a bucket were followed.
    pub(super) is_complete: bool,
}

/// One service with rules of its own, or all others together.
#[derive(Debug, Serialize)]
pub(super) struct OfService {
    #[serde(flatten)]
    pub(super) suggestion: Suggestion,
    /// Sources that sent packets.
    pub(super) sources: usize,
    /// Those of one packet or one sample. Percentiles leave them out, unless there are no others.
    pub(super) seen_once: usize,
    /// Whether cells decide about most packets, so that only samples were counted.
    pub(super) estimated: bool,
    pub(super) busiest: Busiest,
    /// Sources that the limit would refuse packets of.
    pub(super) limited: usize,
    /// The busiest of them.
    pub(super) would_limit: Vec<Limited>,
}

#[derive(Debug, Serialize)]
pub(super) struct Suggestion {
    service: String,
    packets: String,
    /// Whether the observed traffic needs less.
    is_least: bool,
    command: String,
    toml: String,
    #[serde(skip)]
    in_force: InForce,
}

/// The limit that the proposal replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InForce {
    /// There is none, or it only counts.
    NothingEnforced,
    /// Every packet passes, until the shadow of the whole instance ends.
    InShadow,
    /// The same, but it only counts then, too.
    InOwnShadow,
    /// It drops or rejects packets.
    Enforced,
    /// It also bans sources.
    Bans,
}

impl InForce {
    /// Reads the policy of the default. `is_in_shadow` tells whether every packet passes.
    pub(super) fn of(policy: Option<&Policy>, is_in_shadow: bool) -> Self {
        match policy {
            Some(policy) if is_in_shadow && in_shadow::is_own(policy) => Self::InOwnShadow,
            _ if is_in_shadow => Self::InShadow,
            Some(policy) if policy.kind == LIMIT && !in_shadow::is_own(policy) => {
                if policy.ban.time == 0 {
                    Self::Enforced
                } else {
                    Self::Bans
                }
            }
            _ => Self::NothingEnforced,
        }
    }

    /// Returns the option and the line of a file that let the proposed limit only count. A limit that is enforced stays
    /// so, and in the shadow of the whole instance every limit only counts.
    const fn rehearsal(self) -> [&'static str; 2] {
        match self {
            Self::NothingEnforced => [" --over-limit shadow", "over-limit = \"shadow\"\n"],
            Self::InShadow | Self::InOwnShadow | Self::Enforced | Self::Bans => ["", ""],
        }
    }
}

/// Packets of a source in its busiest second, minute and hour. None if the time was shorter.
#[derive(Debug, Serialize)]
pub(super) struct Busiest {
    pub(super) second: Percentiles,
    pub(super) minute: Option<Percentiles>,
    pub(super) hour: Option<Percentiles>,
}

/// Percentiles over the sources.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Percentiles {
    p50: u64,
    p90: u64,
    p99: u64,
    highest: u64,
}

/// A source that the limit would refuse packets of.
#[derive(Debug, Serialize)]
pub(super) struct Limited {
    pub(super) source: String,
    pub(super) second: u64,
    pub(super) minute: Option<u64>,
    pub(super) hour: Option<u64>,
}

impl Percentiles {
    /// The values are in order.
    pub(super) fn of(sorted: &[u64]) -> Self {
        let [p50, p90, p99, highest] = [50.0, 90.0, 99.0, 100.0].map(|percent| percentile(sorted, percent));
        Self { p50, p90, p99, highest }
    }

    /// Returns how many times the median the percentile is, if that is much.
    const fn spread(&self, percentile: u8) -> Option<u64> {
        let value = match percentile {
            0..=89 => return None,
            90..=98 => self.p90,
            _ => self.p99,
        };
        let median = if self.p50 == 0 { 1 } else { self.p50 };
        let times = value / median;
        if times >= MUCH { Some(times) } else { None }
    }

    fn cells(&self) -> [String; 4] {
        [self.p50, self.p90, self.p99, self.highest].map(|packets| packets.to_string())
    }
}

impl Suggestion {
    /// Proposes a default of the service in packets per second.
    pub(super) fn new(service: ServiceName, proposal: Proposal, in_force: InForce) -> Self {
        let packets = PacketRate(Rate { amount: proposal.per_second.min(MOST), period: SECOND }).to_string();
        let (option, table) = match service.0 {
            Service::Any => (String::new(), "default".to_owned()),
            _ => (format!(" --service {service}"), format!("service.\"{service}\"")),
        };
        let [shadow, line] = in_force.rehearsal();
        Self {
            service: service.to_string(),
            command: pasted::line(&format!("ratelimit limit set default{option} --packets {packets}{shadow}"))
                .into_owned(),
            toml: format!("[{table}]\npackets = \"{packets}\"\n{line}"),
            packets,
            is_least: proposal.is_least,
            in_force,
        }
    }
}

impl Report {
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let time = write_duration(Duration::from_secs_f64(self.seconds));
        if self.services.is_empty() {
            return writeln!(out, "no source sent a packet in {time}: there is nothing to suggest");
        }
        writeln!(out, "observed for {time}: packets of one source in its busiest second, minute and hour\n")?;
        let rows: Vec<_> = self.services.iter().flat_map(OfService::rows).collect();
        output::table(out, ["service", "sources", "per", "median", "90 %", "99 %", "highest"], &rows)?;
        for of_service in &self.services {
            writeln!(out)?;
            of_service.write(self.percentile, out)?;
        }
        self.write_what_is_left_out(out)?;
        let is_any =
            |of: &[InForce]| self.services.iter().any(|of_service| of.contains(&of_service.suggestion.in_force));
        let is_in_shadow = is_any(&[InForce::InShadow, InForce::InOwnShadow]);
        if is_in_shadow || is_any(&[InForce::NothingEnforced]) {
            writeln!(out, "\nIn shadow, packets over the limit pass. `ratelimit sources` shows whose.")?;
            if is_in_shadow {
                writeln!(out, "All limits are in shadow now. To enforce them: `ratelimit set --shadow off`")?;
            } else {
                writeln!(out, "To enforce it, repeat the command with --over-limit drop.")?;
            }
        }
        let keeps = self.services.iter().any(|of_service| of_service.suggestion.in_force != InForce::NothingEnforced);
        let file = if keeps {
            "In a configuration file, change only these keys:"
        } else {
            "The same in a configuration file:"
        };
        writeln!(out, "\n{file}\n")?;
        self.services.iter().try_for_each(|of_service| write!(out, "{}", of_service.suggestion.toml))
    }
}

impl Report {
    fn write_what_is_left_out(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.services.iter().any(|of_service| of_service.estimated) {
            let longer = if self.seconds < 60.0 { "Observe for a minute at least. " } else { "" };
            writeln!(
                out,
                "\n{longer}Without a limit, and in an instance with `attach --front off`, every packet is counted."
            )?;
        }
        if self.not_admitted != 0 {
            let packets = self.not_admitted;
            writeln!(
                out,
                "\n{packets} packets came from further sources that got no bucket. The numbers leave them out."
            )?;
        }
        if !self.is_complete {
            writeln!(out, "\nThere were more sources than the command can follow. The numbers leave some out.")?;
        }
        Ok(())
    }
}

impl OfService {
    fn rows(&self) -> Vec<[String; 7]> {
        let Busiest { second, minute, hour } = &self.busiest;
        let all = [("second", Some(second)), ("minute", minute.as_ref()), ("hour", hour.as_ref())];
        let row = |(per, percentiles): (&str, Option<&Percentiles>)| {
            let [p50, p90, p99, highest] = percentiles?.cells();
            let (service, sources) = (self.suggestion.service.clone(), self.sources.to_string());
            Some([service, sources, per.to_owned(), p50, p90, p99, highest])
        };
        all.into_iter().filter_map(row).collect()
    }

    fn write(&self, percentile: u8, out: &mut dyn Write) -> io::Result<()> {
        let Suggestion { service, packets, is_least, command, in_force, .. } = &self.suggestion;
        let reason = if *is_least { "the least that is proposed, more than" } else { "rounded up from" };
        writeln!(out, "{service}: {packets}, {reason} twice the busiest second of {percentile} % of the sources")?;
        if self.estimated {
            writeln!(
                out,
                "  cells decide, so the numbers are estimates from one packet in 256, without sources of few packets"
            )?;
        }
        if self.seen_once != 0 && self.seen_once < self.sources {
            let once = count(self.seen_once, "source");
            writeln!(out, "  {once} sent one packet or one sample each: the percentiles leave them out")?;
        }
        if let Some(times) = self.busiest.second.spread(percentile) {
            writeln!(
                out,
                "  {percentile} % of the sources reach {times} times the median: if the busiest attack, a lower --percentile leaves them out"
            )?;
        }
        match self.limited {
            0 => writeln!(out, "  would limit none of {}", count(self.sources, "source"))?,
            limited => writeln!(out, "  would limit {limited} of {}:", count(self.sources, "source"))?,
        }
        for Limited { source, second, .. } in self.would_limit.iter().take(SHOWN) {
            writeln!(out, "    {source}: {second} in its busiest second")?;
        }
        match self.limited.saturating_sub(SHOWN) {
            0 => {}
            more => writeln!(out, "    and {more} more")?,
        }
        writeln!(out, "  {command}")?;
        match in_force {
            InForce::NothingEnforced | InForce::InShadow => Ok(()),
            InForce::InOwnShadow => writeln!(
                out,
                "  The limit in force has --over-limit shadow, and keeps it. With --over-limit drop, `ratelimit set --shadow off` enforces it, too."
            ),
            InForce::Enforced => {
                writeln!(out, "  The limit in force stays enforced. With --over-limit shadow, it would only count.")?;
                writeln!(out, "{WHILE_ENFORCED}")
            }
            InForce::Bans => {
                writeln!(
                    out,
                    "  The limit in force stays enforced. With --ban off --over-limit shadow, it would only count."
                )?;
                writeln!(out, "{WHILE_ENFORCED}")
            }
        }
    }
}
