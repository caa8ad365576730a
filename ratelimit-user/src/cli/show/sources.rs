//! `ratelimit sources`.

use std::{cmp::Reverse, path::Path};

use anyhow::Result;
use clap::ValueEnum;
use ratelimit_common::{buckets::bucket::IN_SHADOW, limits::policy::LIMIT, maps::control::FEATURE_FRONT};
use serde::Serialize;

use crate::{
    cli::print::{
        answer::Answer,
        output::{self, Output, Traffic},
    },
    dataplane::{
        Instance,
        readings::tracked,
        rules::{resolve, services::Services},
        sys::host,
    },
    limit::write,
    text::prefix::Prefix,
    text::service::ServiceName,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Order: the source with the most packets of this kind comes first
    #[arg(long, value_enum, default_value = "dropped")]
    sort: Sort,
    /// List at most this many sources
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
    /// Packets that passed in shadow mode, and would have been dropped.
    would_drop: Traffic,
}

pub(crate) fn run(arguments: &Arguments, pins: &Path, output: Output) -> Result<Answer> {
    host::check()?;
    let instance = Instance::open(pins)?;
    let services = Services::read(&instance.tables)?;
    let mut tracked = tracked::all(&instance.tables)?;
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
        let mut spec = resolve::of_source(&instance.tables, source, classes)?;
        spec.parents = spec.parents_of(source.family)?;
        // Cells decide only about limits without parents.
        let limits = spec.policy.packets.is_on() || spec.policy.second.is_on();
        let by_cells = spec.policy.kind == LIMIT && limits && spec.parents.is_empty();
        is_estimated |= has_cells && by_cells && bucket.passed_packets > 0;
        rows.push(Row {
            source: Prefix::of(source, source.prefix).to_string(),
            service: ServiceName(service).to_string(),
            policy: write::spec(&spec),
            passed: Traffic { packets: bucket.passed_packets, bytes: bucket.passed_bytes },
            dropped: if in_shadow { Traffic::default() } else { dropped },
            would_drop: if in_shadow { dropped } else { Traffic::default() },
        });
    }
    // A slow reader must not keep other commands waiting for the lock.
    drop(instance);
    output.print(&rows, |out| {
        let cells: Vec<_> = rows.iter().map(Row::cells).collect();
        // The column of drops in shadow mode is shown only if there are any.
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
            writeln!(out, "passed packets within a limit are estimates (see `ratelimit help sources`)")?;
        }
        match tracked.len() - rows.len() {
            0 => Ok(()),
            more => writeln!(out, "{more} more sources (show all: -n {})", tracked.len()),
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
