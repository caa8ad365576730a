//! `ratelimit sources`.

use std::{cmp::Reverse, path::Path};

use anyhow::Result;
use clap::ValueEnum;
use ratelimit_common::{buckets::bucket::IN_SHADOW, limits::policy::LIMIT, maps::control::FEATURE_FRONT};
use serde::Serialize;

use super::{
    Answer,
    output::{self, Output, Traffic},
};
use crate::{
    dataplane::{
        Instance,
        rules::{resolve, services::Services},
        sys::host,
    },
    limit::write,
    prefix::Prefix,
    service::ServiceName,
};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Those with the most packets of this kind first
    #[arg(long, value_enum, default_value = "dropped")]
    sort: Sort,
    /// List at most this many
    #[arg(short = 'n', value_name = "N", default_value_t = 20)]
    most: usize,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Sort {
    Dropped,
    Passed,
}

#[derive(Debug, Serialize)]
struct Row {
    source: String,
    service: String,
    policy: String,
    passed: Traffic,
    dropped: Traffic,
    /// What passed in shadow, and would have been dropped.
    would_drop: Traffic,
}

pub(super) fn run(arguments: &Arguments, pins: &Path, output: Output) -> Result<Answer> {
    host::check()?;
    let instance = Instance::open(pins)?;
    let services = Services::read(&instance.tables)?;
    let mut tracked = instance.tables.tracked()?;
    tracked.retain(|(source, bucket)| resolve::is_source(source, bucket));
    tracked.sort_unstable_by_key(|(source, bucket)| {
        let first = match arguments.sort {
            Sort::Dropped => (bucket.dropped_packets & !IN_SHADOW, bucket.passed_packets),
            Sort::Passed => (bucket.passed_packets, bucket.dropped_packets & !IN_SHADOW),
        };
        (Reverse(first), Prefix::of(source, source.prefix), source.class)
    });
    let has_cells = instance.tables.control()?.features & FEATURE_FRONT != 0;
    let mut is_estimated = false;
    let mut rows = Vec::new();
    for (source, bucket) in tracked.iter().take(arguments.most) {
        let (service, classes) = services.of_key(source);
        let in_shadow = bucket.dropped_packets & IN_SHADOW != 0;
        let dropped = Traffic { packets: bucket.dropped_packets & !IN_SHADOW, bytes: bucket.dropped_bytes };
        let mut terms = resolve::of_source(&instance.tables, source, classes)?;
        terms.parents = terms.parents_of(source.family)?;
        // Cells are asked for limits alone, without parents.
        let limits = terms.policy.packets.is_on() || terms.policy.second.is_on();
        let by_cells = terms.policy.kind == LIMIT && limits && terms.parents.is_empty();
        is_estimated |= has_cells && by_cells && bucket.passed_packets > 0;
        rows.push(Row {
            source: Prefix::of(source, source.prefix).to_string(),
            service: ServiceName(service).to_string(),
            policy: write::terms(&terms),
            passed: Traffic { packets: bucket.passed_packets, bytes: bucket.passed_bytes },
            dropped: if in_shadow { Traffic::default() } else { dropped },
            would_drop: if in_shadow { dropped } else { Traffic::default() },
        });
    }
    // A reader may take its time; other commands need not wait for it.
    drop(instance);
    output.print(&rows, |out| {
        let cells: Vec<_> = rows.iter().map(Row::cells).collect();
        // Would-be drops have columns only where there are any.
        if rows.iter().any(|row| row.would_drop.packets != 0) {
            let head =
                ["source", "service", "policy", "passed", "passed bytes", "dropped", "dropped bytes", "would drop"];
            let shadow = |row: &Row| row.would_drop.packets.to_string();
            let cells: Vec<[String; 8]> =
                rows.iter().zip(cells).map(|(row, [a, b, c, d, e, f, g])| [a, b, c, d, e, f, g, shadow(row)]).collect();
            output::table(out, head, &cells)?;
        } else {
            let head = ["source", "service", "policy", "passed", "passed bytes", "dropped", "dropped bytes"];
            output::table(out, head, &cells)?;
        }
        if is_estimated {
            writeln!(out, "what passed within a limit is estimated (`ratelimit help sources`)")?;
        }
        match tracked.len() - rows.len() {
            0 => Ok(()),
            more => writeln!(out, "and {more} more (-n {})", tracked.len()),
        }
    })?;
    Ok(Answer::Done)
}

impl Row {
    fn cells(&self) -> [String; 7] {
        let Self { source, service, policy, passed, dropped, .. } = self;
        [
            source.clone(),
            service.clone(),
            policy.clone(),
            passed.packets.to_string(),
            passed.bytes.to_string(),
            dropped.packets.to_string(),
            dropped.bytes.to_string(),
        ]
    }
}
