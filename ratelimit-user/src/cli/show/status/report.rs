//! The status of an instance, as it is read and printed as JSON.

use std::collections::BTreeMap;

use anyhow::Result;
use ratelimit_common::{
    maps::{
        control::{
            Control, FEATURE_FRONT, FEATURE_OWN, FEATURE_PASS_MALFORMED, FEATURE_REJECT, FEATURE_SAMPLE,
            FEATURE_SHADOW, FEATURE_UNKNOWN,
        },
        cpu::Cpu,
    },
    reason::Reason,
    rules::rule::CONFIG,
};
use serde::Serialize;

use super::{
    differences::{Difference, differences},
    interface::Interface,
    map_memory::Memory,
};
use crate::{
    cli::print::{list_row::Row, output::Traffic},
    controller::{
        confirm::client,
        socket::request::{FileState, Unattached, UnusableList},
    },
    dataplane::{
        Instance,
        lists::listing,
        readings::{cells, clocks, gauges, tracked},
        rules::resolve,
        tables::open::Tables,
    },
};

#[derive(Debug, Serialize)]
pub(super) struct Status {
    pub(super) interfaces: Vec<Interface>,
    /// The file that the daemon keeps in force. None without a daemon, and while it does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) config: Option<File>,
    /// Time until an attach is undone that waits for a confirmation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) confirm_within_seconds: Option<u64>,
    pub(super) passed: Traffic,
    pub(super) dropped: Traffic,
    pub(super) reasons: BTreeMap<&'static str, Traffic>,
    pub(super) shadow: Shadow,
    pub(super) sources: Sources,
    pub(super) ipv6_prefix: u32,
    pub(super) lists: Vec<Row>,
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

/// The file that the daemon keeps in force.
#[derive(Debug, Serialize)]
pub(super) struct File {
    pub(super) file: String,
    /// Whether the file was refused, an interface of it is not limited, or the file of a list cannot be used.
    pub(super) degraded: bool,
    /// Why the file was refused at the last reload, so that an earlier state of it is in force.
    pub(super) refused: Option<String>,
    /// Interfaces of the file that do not carry the program.
    pub(super) unattached: Vec<Unattached>,
    /// Lists of the file whose own files could not be used.
    pub(super) unusable_lists: Vec<UnusableList>,
    /// What else differs from the file.
    pub(super) differences: Vec<Difference>,
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
pub(super) struct Sources {
    pub(super) tracked: usize,
    /// One for each source and service with rules, and one for each parent.
    pub(super) buckets: usize,
    pub(super) max: u32,
}

#[derive(Debug, Serialize)]
pub(super) struct Front {
    pub(super) cells: u32,
    /// None without a default limit that cells can decide.
    pub(super) crowded: Option<usize>,
    pub(super) displaced_refusals: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct Admission {
    /// The budget for new buckets. None if it is not limited.
    pub(super) per_second_and_cpu: Option<u64>,
    pub(super) cpus: usize,
    pub(super) created: u64,
    /// Packets that were dropped because no bucket could be created.
    pub(super) refused: u64,
    /// Failed inserts. This includes buckets that another CPU created first.
    pub(super) failed: u64,
    /// Bans that the map had no room for.
    pub(super) bans_failed: u64,
    /// Estimated time that an unused bucket stays, if the budget is always spent.
    pub(super) idle_at_full_budget_seconds: Option<f64>,
    /// Estimated time that an unused bucket stays, at the average rate so far.
    pub(super) idle_so_far_seconds: Option<f64>,
}

#[derive(Debug, Serialize)]
pub(super) struct Unknown {
    pub(super) per_second: u64,
    pub(super) known: usize,
    pub(super) passed: u64,
    pub(super) refused: u64,
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
    /// Whether any limit rejects packets.
    #[serde(skip)]
    pub(super) are_on: bool,
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
    let (control, tracked, cpus) = (tables.control()?, tracked::all(tables)?, gauges::of_cpus(tables)?);
    let interfaces = Interface::list(instance)?;
    let is_on = |feature| control.features & feature != 0;
    shadow.everything = is_on(FEATURE_SHADOW);
    Ok(Status {
        config: file.map(|file| File::read(instance, &interfaces, file)).transpose()?,
        interfaces,
        confirm_within_seconds: client::seconds_left(instance.pins()),
        passed,
        dropped,
        shadow,
        sources: Sources {
            tracked: tracked.iter().filter(|(source, bucket)| resolve::is_source(source, bucket)).count(),
            buckets: tracked.len(),
            max: gauges::max_sources(tables)?,
        },
        ipv6_prefix: control.ipv6_prefix,
        lists: listing::all(tables)?.iter().map(Row::of).collect(),
        malformed: if is_on(FEATURE_PASS_MALFORMED) { "pass" } else { "drop" },
        front: if is_on(FEATURE_FRONT) { Some(Front::read(tables, &cpus)?) } else { None },
        admission: Admission::read(tables, &control, &cpus, packets(Reason::NotAdmitted))?,
        sample: is_on(FEATURE_SAMPLE),
        unknown: if is_on(FEATURE_UNKNOWN) {
            Some(Unknown {
                per_second: control.unknown.per_second,
                known: cells::known(tables)?,
                passed: cpus.unknown_passed,
                refused: packets(Reason::OverUnknown),
            })
        } else {
            None
        },
        own: is_on(FEATURE_OWN).then(|| Own {
            per_second: control.own.per_second,
            passed: packets(Reason::OwnConnection),
            looked_up: cpus.own_looked_up,
            not_looked_up: cpus.own_not_looked_up,
        }),
        replies: Replies {
            are_on: is_on(FEATURE_REJECT),
            per_second: control.replies.per_second,
            sent: cpus.replies_sent,
            unsent: cpus.replies_unsent,
        },
        clock: Clock::read(tables)?,
        lost_races: cpus.lost_races,
        memory: Memory::read(instance)?,
        reasons,
    })
}

impl File {
    fn read(instance: &Instance, interfaces: &[Interface], mut state: FileState) -> Result<Self> {
        let lists = listing::all(&instance.tables)?;
        state.look_up_lists(|name| lists.iter().any(|list| list.name == name && list.origin == CONFIG));
        let differences = differences(instance, interfaces, &state)?;
        let FileState { file, refused, unattached, unusable_lists, .. } = state;
        let degraded = refused.is_some() || !unattached.is_empty() || !unusable_lists.is_empty();
        Ok(Self { file, degraded, refused, unattached, unusable_lists, differences })
    }
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

impl Admission {
    fn read(tables: &Tables, control: &Control, counted: &Cpu, refused: u64) -> Result<Self> {
        let (max_sources, cpus) = (gauges::max_sources(tables)?, gauges::cpus()?);
        let has_budget = control.features & FEATURE_FRONT != 0;
        let at_full_budget = has_budget.then(|| gauges::idle_at_full_budget(control, max_sources, cpus)).flatten();
        let so_far = gauges::idle_so_far(control, max_sources, counted.admitted);
        Ok(Self {
            per_second_and_cpu: has_budget.then_some(control.admission.per_second),
            cpus,
            created: counted.admitted,
            refused,
            failed: counted.failed,
            bans_failed: counted.bans_failed,
            idle_at_full_budget_seconds: at_full_budget.map(|stay| stay.as_secs_f64()),
            idle_so_far_seconds: so_far.map(|stay| stay.as_secs_f64()),
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
