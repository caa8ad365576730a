//! The status of an instance, as it is read and printed as JSON.

use std::collections::BTreeMap;

use anyhow::Result;
use jiff::Timestamp;
use ratelimit_common::{
    identity::source::Source,
    maps::{
        control::{
            FEATURE_FRONT, FEATURE_OWN, FEATURE_PASS_MALFORMED, FEATURE_PROVE_TCP, FEATURE_SAMPLE, FEATURE_SHADOW,
        },
        cpu::Cpu,
    },
    reason::Reason,
};
use ratelimit_daemon::controller::{confirm::client, socket::request::FileState};
use ratelimit_dataplane::{
    Instance,
    lists::listing,
    readings::{cells, clocks, gauges, rates::Rates},
    tables::open::Tables,
};
use serde::Serialize;

use super::{
    activity::{Activity, Begun},
    admission::Admission,
    diagnosis::{self, Facts, Worst},
    file::File,
    interface::Interface,
    map_memory::Memory,
    rules::{DefaultLimit, Rules},
    spared::Spared,
    unknown::Unknown,
};
use crate::cli::print::{in_shadow, list_row::Row, output::Traffic, source_row};

/// Changes when a field of any command's JSON is renamed or removed, or gets another meaning.
pub(super) const SCHEMA: u32 = 1;

#[derive(Debug, Serialize)]
pub(super) struct Status {
    /// The version of the schema in docs/schema, for the output of all commands.
    pub(super) schema: u32,
    /// The same as long as the counters go on.
    pub(super) instance: String,
    pub(super) read_at: Timestamp,
    /// The moment from which on totals count. None if they count from the beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) since_at: Option<Timestamp>,
    pub(super) interfaces: Vec<Interface>,
    /// The file that the daemon keeps in force. None without a daemon, and while it does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) config: Option<File>,
    /// Time until an attach is undone that waits for a confirmation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) confirm_within_seconds: Option<u64>,
    /// One sentence or two.
    pub(super) diagnosis: String,
    pub(super) default_limits: Vec<DefaultLimit>,
    pub(super) rules: Rules,
    pub(super) passed: Traffic,
    pub(super) dropped: Traffic,
    pub(super) rates: RecentRates,
    /// The sources with the most refused packets per second.
    pub(super) worst: Vec<source_row::Row>,
    pub(super) reasons: BTreeMap<&'static str, Traffic>,
    pub(super) shadow: Shadow,
    pub(super) sources: Sources,
    pub(super) ipv6_prefix: u32,
    pub(super) lists: Vec<Row>,
    /// What denies, but is not applied to this host's own network.
    pub(super) spared: Spared,
    /// Verdict for malformed and truncated packets: `drop` or `pass`.
    pub(super) malformed: &'static str,
    /// None if packets do not check a cell first.
    pub(super) front: Option<Front>,
    pub(super) admission: Admission,
    pub(super) sample: bool,
    /// None if unknown sources are not limited.
    pub(super) unknown: Option<Unknown>,
    /// None if own connections are limited like all others.
    pub(super) own: Option<Own>,
    pub(super) replies: Replies,
    pub(super) clock: Clock,
    pub(super) lost_races: u64,
    pub(super) memory: Memory,
}

/// Packets that passed in shadow mode and would have been dropped.
#[derive(Debug, Serialize)]
pub(super) struct Shadow {
    /// Whether nothing is enforced, so that every packet passes.
    pub(super) everything: bool,
    /// These packets are a part of the passed ones.
    pub(super) would_drop: Traffic,
    pub(super) reasons: BTreeMap<&'static str, Traffic>,
}

#[derive(Debug, Serialize)]
pub(super) struct RecentRates {
    pub(super) now: Rates,
    /// None without a daemon, and in its first seconds.
    pub(super) last_minute: Option<Rates>,
}

#[derive(Debug, Serialize)]
pub(super) struct Sources {
    pub(super) tracked: usize,
    /// One for each source and service with rules, and one for each parent.
    pub(super) buckets: usize,
    pub(super) max: u32,
    /// Whether both numbers are estimates, because there are too many to count them all.
    pub(super) estimated: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct Front {
    pub(super) cells: u32,
    /// None without a default limit that cells can decide.
    pub(super) crowded: Option<usize>,
    pub(super) displaced_refusals: u64,
}

/// Connections that this host has opened.
#[derive(Debug, Serialize)]
pub(super) struct Own {
    /// Rate of each source.
    pub(super) per_second: u64,
    pub(super) passed: u64,
    /// Refused packets whose socket was looked up.
    pub(super) looked_up: u64,
    /// Refused packets whose socket was not looked up, because the budget of their CPU was spent.
    pub(super) not_looked_up: u64,
}

/// ICMP errors and TCP resets that answer rejected packets.
#[derive(Debug, Serialize)]
pub(super) struct Replies {
    pub(super) per_second: u64,
    pub(super) sent: u64,
    /// Answers that were not sent because the budget was spent.
    pub(super) unsent: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct Clock {
    pub(super) tick_nanoseconds: u64,
    /// `coarse` or `precise`. None without a default limit.
    pub(super) default: Option<&'static str>,
    pub(super) coarse_rules: usize,
    pub(super) precise_rules: usize,
}

/// Reads the status.
pub(super) fn read(instance: &Instance, file: Option<FileState>) -> Result<Status> {
    let tables = &instance.tables;
    let begun = Begun::of(tables)?;
    let last_minute = file.as_ref().and_then(|file| file.last_minute);
    let (mut passed, mut dropped) = (Traffic::default(), Traffic::default());
    let mut reasons = BTreeMap::new();
    for (reason, count) in tables.counts()? {
        let traffic = Traffic { packets: count.packets, bytes: count.bytes };
        *(if reason.passes() { &mut passed } else { &mut dropped }) += traffic;
        reasons.insert(reason.name(), traffic);
    }
    let mut shadow = Shadow { everything: false, would_drop: Traffic::default(), reasons: BTreeMap::new() };
    for (reason, count) in tables.shadow_counts()?.into_iter().filter(|(_, count)| count.packets > 0) {
        let traffic = Traffic { packets: count.packets, bytes: count.bytes };
        shadow.would_drop += traffic;
        passed += traffic;
        shadow.reasons.insert(reason.name(), traffic);
    }
    let packets = |reason: Reason| reasons.get(reason.name()).map_or(0, |traffic| traffic.packets);
    let (control, cpus) = (tables.control()?, gauges::of_cpus(tables)?);
    let interfaces = Interface::list(instance)?;
    let is_on = |feature| control.features & feature != 0;
    shadow.everything = is_on(FEATURE_SHADOW);
    let (rules, default_limits) = (Rules::read(tables)?, DefaultLimit::read(tables)?);
    let lists: Vec<_> = listing::with_estimates(tables)?.iter().map(Row::of).collect();
    let unknown = Unknown::read(tables, &control, &cpus, packets)?;
    let memory = Memory::read(instance)?;
    let Activity { now, refused, worst, found } = begun.end()?;
    let refused_as_new =
        |(reason, _): &&(Reason, u64)| matches!(reason, Reason::NotAdmitted | Reason::OverUnknown | Reason::SynCookie);
    let named: Vec<Worst<'_>> = worst.iter().map(Worst::of).collect();
    let facts = Facts {
        is_attached: interfaces.iter().any(|interface| !interface.is_gone),
        are_gone: !interfaces.is_empty() && interfaces.iter().all(|interface| interface.is_gone),
        has_rules: !default_limits.is_empty() || rules.any() || !lists.is_empty() || unknown.is_some(),
        is_in_shadow: shadow.everything,
        has_limits_in_shadow: in_shadow::may_be(tables)?,
        now: now.per_second,
        packets: passed.packets + dropped.packets,
        sources: found.of_all(found.tracked),
        seen_once: found.of_all(found.seen_once),
        unknown: unknown.as_ref().map(|unknown| unknown.per_second),
        proves_tcp: is_on(FEATURE_PROVE_TCP),
        refused_as_new: refused.iter().filter(refused_as_new).map(|(_, rate)| rate).sum(),
        over_unknown: refused.iter().filter(|(reason, _)| *reason == Reason::OverUnknown).map(|(_, rate)| rate).sum(),
        deny: Worst::deny(&named, tables)?,
        worst: named,
    };
    Ok(Status {
        schema: SCHEMA,
        instance: format!("{:016x}", Source::v4([0; 4]).hash(&control.seed)),
        read_at: Timestamp::from_second(Timestamp::now().as_second())?,
        since_at: None,
        diagnosis: diagnosis::of(&facts),
        default_limits,
        rules,
        rates: RecentRates { now, last_minute },
        worst,
        config: file.map(|file| File::read(instance, &interfaces, file)).transpose()?,
        interfaces,
        confirm_within_seconds: client::seconds_left(instance.pins()),
        passed,
        dropped,
        shadow,
        sources: Sources {
            tracked: found.of_all(found.tracked),
            buckets: found.of_all(found.buckets),
            max: gauges::max_sources(tables)?,
            estimated: found.part < 1.0,
        },
        ipv6_prefix: control.ipv6_prefix,
        lists,
        spared: Spared::read(tables, &instance.attachments.list()?)?,
        malformed: if is_on(FEATURE_PASS_MALFORMED) { "pass" } else { "drop" },
        front: if is_on(FEATURE_FRONT) { Some(Front::read(tables, &cpus)?) } else { None },
        admission: Admission::read(tables, &control, &cpus, packets(Reason::NotAdmitted))?,
        sample: is_on(FEATURE_SAMPLE),
        unknown,
        own: is_on(FEATURE_OWN).then(|| Own {
            per_second: control.own.per_second,
            passed: packets(Reason::OwnConnection),
            looked_up: cpus.own_looked_up,
            not_looked_up: cpus.own_not_looked_up,
        }),
        replies: Replies {
            per_second: control.replies.per_second,
            sent: cpus.replies_sent,
            unsent: cpus.replies_unsent,
        },
        clock: Clock::read(tables)?,
        lost_races: cpus.lost_races,
        memory,
        reasons,
    })
}

impl Front {
    fn read(tables: &Tables, cpus: &Cpu) -> Result<Self> {
        Ok(Self {
            cells: tables.front.open()?.len(),
            crowded: cells::crowded(tables)?,
            displaced_refusals: cpus.displaced_refusals,
        })
    }
}

impl Clock {
    fn read(tables: &Tables) -> Result<Self> {
        let clocks = clocks::of_rules(tables)?;
        let name = |clock| if clock == clocks::Clock::Coarse { "coarse" } else { "precise" };
        Ok(Self {
            tick_nanoseconds: clocks.tick,
            default: clocks.default.map(name),
            coarse_rules: clocks.coarse,
            precise_rules: clocks.precise,
        })
    }
}
