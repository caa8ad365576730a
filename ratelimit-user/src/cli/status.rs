//! `ratelimit status`.

mod interface;
mod text;

pub(super) use interface::Interface;

use std::{collections::BTreeMap, path::Path};

use anyhow::Result;
use ratelimit_common::{
    maps::{
        control::{
            Control, FEATURE_FRONT, FEATURE_PASS_MALFORMED, FEATURE_REJECT, FEATURE_SAMPLE, FEATURE_SHADOW,
            FEATURE_UNKNOWN,
        },
        cpu::Cpu,
    },
    reason::Reason,
};
use serde::Serialize;

use super::{
    Answer,
    output::{Output, Traffic},
};
use crate::{
    controller::confirm,
    dataplane::{
        Instance,
        readings::{cells, clocks, gauges},
        rules::resolve,
        sys::host,
        tables::{memory, open::Tables},
    },
};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Show cells, clocks, races and the memory of each map as well; JSON has them always
    #[arg(short, long)]
    verbose: bool,
}

#[derive(Debug, Serialize)]
struct Status {
    interfaces: Vec<Interface>,
    /// Time until an attach that waits to be confirmed is taken back.
    #[serde(skip_serializing_if = "Option::is_none")]
    confirm_within_seconds: Option<u64>,
    passed: Traffic,
    dropped: Traffic,
    reasons: BTreeMap<&'static str, Traffic>,
    shadow: Shadow,
    sources: Sources,
    ipv6_prefix: u32,
    /// What becomes of malformed and truncated packets: `drop` or `pass`.
    malformed: &'static str,
    /// Nothing where every source has a bucket of its own.
    front: Option<Front>,
    admission: Admission,
    sample: bool,
    /// Nothing where they are not limited.
    unknown: Option<Unknown>,
    replies: Replies,
    clock: Clock,
    lost_races: u64,
    memory: Memory,
}

/// What passed, and is counted as what would have become of it.
#[derive(Debug, Serialize)]
struct Shadow {
    /// Whether all packets pass.
    everything: bool,
    /// Part of what has passed.
    would_drop: Traffic,
    reasons: BTreeMap<&'static str, Traffic>,
}

#[derive(Debug, Serialize)]
struct Sources {
    tracked: usize,
    /// One for each service of a source that rules are about, and for each parent.
    buckets: usize,
    max: u32,
}

#[derive(Debug, Serialize)]
struct Front {
    cells: u32,
    /// Nothing without a default limit that cells are asked for.
    crowded: Option<usize>,
    displaced_refusals: u64,
}

#[derive(Debug, Serialize)]
struct Admission {
    /// The budget; nothing where every source gets a bucket.
    per_second_and_cpu: Option<u64>,
    cpus: usize,
    created: u64,
    /// Packets dropped for want of a bucket.
    refused: u64,
    /// Inserts that failed, also where another CPU was first with the same bucket.
    failed: u64,
    /// Bans that the map had no room for.
    bans_failed: u64,
    /// Estimates of how long a bucket stays that is not asked.
    idle_at_full_budget_seconds: Option<f64>,
    idle_so_far_seconds: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Unknown {
    per_second: u64,
    known: usize,
    passed: u64,
    refused: u64,
}

/// Answers to rejected packets.
#[derive(Debug, Serialize)]
struct Replies {
    /// Whether any limit asks for them.
    #[serde(skip)]
    are_on: bool,
    per_second: u64,
    sent: u64,
    /// Those that the budget was spent for.
    unsent: u64,
}

#[derive(Debug, Serialize)]
struct Clock {
    tick_nanoseconds: u64,
    /// `coarse` or `precise`; nothing without a default limit.
    default: Option<&'static str>,
    coarse_rules: usize,
    precise_rules: usize,
}

#[derive(Debug, Serialize)]
struct Memory {
    bytes: u64,
    /// The largest first.
    maps: Vec<MapMemory>,
}

#[derive(Debug, Serialize)]
struct MapMemory {
    name: &'static str,
    entries: u32,
    bytes: u64,
}

pub(super) fn run(arguments: &Arguments, pins: &Path, output: Output) -> Result<Answer> {
    host::check()?;
    let instance = Instance::open(pins)?;
    let status = read(&instance)?;
    drop(instance);
    output.print(&status, |out| text::write(out, &status, arguments.verbose))?;
    Ok(Answer::Done)
}

fn read(instance: &Instance) -> Result<Status> {
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
    let refused = |reason: Reason| reasons.get(reason.name()).map_or(0, |traffic| traffic.packets);
    let (control, tracked, cpus) = (tables.control()?, tables.tracked()?, gauges::of_cpus(tables)?);
    let is_on = |feature| control.features & feature != 0;
    shadow.everything = is_on(FEATURE_SHADOW);
    Ok(Status {
        interfaces: Interface::list(instance)?,
        confirm_within_seconds: confirm::left(instance.pins()),
        passed,
        dropped,
        shadow,
        sources: Sources {
            tracked: tracked.iter().filter(|(source, bucket)| resolve::is_source(source, bucket)).count(),
            buckets: tracked.len(),
            max: tables.capacity()?,
        },
        ipv6_prefix: control.ipv6_prefix,
        malformed: if is_on(FEATURE_PASS_MALFORMED) { "pass" } else { "drop" },
        front: if is_on(FEATURE_FRONT) { Some(Front::read(tables, &cpus)?) } else { None },
        admission: Admission::read(tables, &control, &cpus, refused(Reason::NotAdmitted))?,
        sample: is_on(FEATURE_SAMPLE),
        unknown: if is_on(FEATURE_UNKNOWN) {
            Some(Unknown {
                per_second: control.unknown.per_second,
                known: cells::known(tables)?,
                passed: cpus.unknown_passed,
                refused: refused(Reason::OverUnknown),
            })
        } else {
            None
        },
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

impl Front {
    fn read(tables: &Tables, cpus: &Cpu) -> Result<Self> {
        Ok(Self { cells: tables.front.len(), crowded: cells::crowded(tables)?, displaced_refusals: cpus.displaced })
    }
}

impl Admission {
    fn read(tables: &Tables, control: &Control, counted: &Cpu, refused: u64) -> Result<Self> {
        let (capacity, cpus) = (tables.capacity()?, gauges::cpus()?);
        let has_budget = control.features & FEATURE_FRONT != 0;
        let at_full_budget = has_budget.then(|| gauges::idle_at_full_budget(control, capacity, cpus)).flatten();
        let so_far = gauges::idle_so_far(control, capacity, counted.admitted);
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

impl Memory {
    fn read(instance: &Instance) -> Result<Self> {
        let maps: Vec<_> = memory::of_maps(instance)?
            .into_iter()
            .map(|memory::MapMemory { name, entries, bytes }| MapMemory { name, entries, bytes })
            .collect();
        Ok(Self { bytes: maps.iter().map(|map| map.bytes).sum(), maps })
    }
}
