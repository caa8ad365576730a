//! Floods by many sources, with the default sizes and real frames on one CPU: the first second after the start, and the
//! state nine seconds later, or one second with `--quick`.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use ratelimit_common::limits::policy::Policy;
use ratelimit_dataplane::program::loader::Settings;
use ratelimit_tests::{Bytecode, Flood, Frame, Running, Sandbox, Sink, Sources, VICTIM_LINK, per_second};

use crate::{
    configurations::PORT,
    measure::Effort,
    results::Attack,
    table::{Axis, Row, Table},
};

/// Numbers of sources.
const SOURCES: [Sources; 5] =
    [Sources::Count(1), Sources::Count(1_000), Sources::Count(64_000), Sources::Count(1_000_000), Sources::Endless];

/// What receives the flood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Receiver {
    Drop,
    OneLine,
    Ours { fast: bool, unknown: u64, cells: bool },
}

const OURS: Receiver = Receiver::Ours { fast: false, unknown: 0, cells: true };

const RECEIVERS: [(&str, Receiver); 6] = [
    ("XDP drop", Receiver::Drop),
    (REFERENCE, Receiver::OneLine),
    ("limit of 1/s", OURS),
    ("limit of 1000/s", Receiver::Ours { fast: true, unknown: 0, cells: true }),
    ("limit of 1/s, --unknown 10000/s", Receiver::Ours { fast: false, unknown: 10_000, cells: true }),
    ("limit of 1/s, --front off", Receiver::Ours { fast: false, unknown: 0, cells: false }),
];

/// The row that ratios refer to.
const REFERENCE: &str = "one line";

/// A running receiver.
enum Standing {
    Sink { _sink: Sink },
    Ours { _bytecode: Box<Bytecode> },
}

/// Measures all cases in turn.
pub(crate) fn run(effort: &Effort) -> Result<Vec<Attack>> {
    let sandbox = Sandbox::new();
    let mut speeds = vec![[const { Vec::new() }; 2]; RECEIVERS.len() * SOURCES.len()];
    for round in 1..=effort.rounds {
        effort.print_progress("floods by many sources", round);
        for (case, speeds) in speeds.iter_mut().enumerate() {
            let (receiver, sources) = (RECEIVERS[case % RECEIVERS.len()].1, SOURCES[case / RECEIVERS.len()]);
            let [first, later] = sample(&sandbox, receiver, sources, effort)?;
            speeds[0].push(first);
            speeds[1].push(later);
        }
    }
    let result = |(case, speeds): (usize, &[Vec<f64>; 2])| Attack {
        receiver: RECEIVERS[case % RECEIVERS.len()].0,
        sources: SOURCES[case / RECEIVERS.len()],
        first_second: effort.figure(&speeds[0]),
        later: effort.figure(&speeds[1]),
    };
    Ok(speeds.iter().enumerate().map(result).collect())
}

/// Returns packets per second: in the first second, and later.
fn sample(sandbox: &Sandbox, receiver: Receiver, sources: Sources, effort: &Effort) -> Result<[f64; 2]> {
    let _standing = match receiver {
        Receiver::Drop => Standing::Sink { _sink: Sink::dropping(sandbox, VICTIM_LINK) },
        Receiver::OneLine => Standing::Sink { _sink: Sink::touching_one_line(sandbox, VICTIM_LINK) },
        Receiver::Ours { fast, unknown, cells } => {
            let defaults = Settings::default();
            let settings = Settings { unknown, cells: if cells { defaults.cells } else { 0 }, ..defaults };
            let mut bytecode = Bytecode::with_kernel_clock_and(settings);
            let policy: Policy = if fast { per_second(1_000, 1_000) } else { per_second(1, 4) };
            bytecode.set("default", policy);
            bytecode.attach_dropping(sandbox, VICTIM_LINK);
            Standing::Ours { _bytecode: Box::new(bytecode) }
        }
    };
    let flood = Flood::of(Frame::udp([10, 0, 0, 0], PORT)).on_cpu(0);
    let flood = match sources {
        Sources::Count(1) => flood,
        Sources::Count(count) => flood.sources(count).in_random_order(),
        Sources::Endless => flood.endless(0),
    };
    let running = flood.start(sandbox);
    while running.sent() == 0 {
        thread::sleep(Duration::from_millis(1));
    }
    let first = rate(&running, Duration::from_secs(1));
    thread::sleep(effort.settling);
    let later = rate(&running, Duration::from_secs_f64(effort.seconds));
    running.stop();
    Ok([first, later])
}

fn rate(running: &Running, time: Duration) -> f64 {
    let (begin, before) = (Instant::now(), running.sent());
    thread::sleep(time);
    (running.sent() - before) as f64 / begin.elapsed().as_secs_f64()
}

/// Returns the results as tables: of the first second, and later.
pub(crate) fn tables(results: &[Attack]) -> [Table; 2] {
    let table = |title: &str, speed: fn(&Attack) -> f64| Table {
        title: format!("million 60-byte frames per second through veth on one CPU, default sizes, {title}"),
        about: "",
        plot: None,
        axis: Axis::Logarithmic,
        columns: SOURCES.iter().map(Sources::to_string).collect(),
        rows: RECEIVERS
            .iter()
            .map(|(name, _)| Row {
                name: (*name).to_owned(),
                figures: results.iter().filter(|row| row.receiver == *name).map(|row| Some(speed(row) / 1e6)).collect(),
                is_drawn: false,
            })
            .collect(),
        digits: 2,
        references: &[REFERENCE],
    };
    [table("the first second of a flood", |row| row.first_second), table("after more seconds", |row| row.later)]
}
