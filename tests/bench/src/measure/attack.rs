//! Floods by many sources, with as many buckets as cells, and real frames on one CPU: the first second after the start,
//! and the state nine seconds later, or sooner with `--record` and `--quick`.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use ratelimit_dataplane::program::loader::Settings;
use ratelimit_tests::{Flood, Frame, Running, Sandbox, Sources};

use crate::{
    configurations::{BOTNET, Configuration, DEFAULT, DENIED, PORT},
    measure::{
        Effort,
        limiters::{Limiter, Terms},
        noise::median,
    },
    results::Attack,
    state::State,
    table::{Axis, Row, Table},
};

/// Numbers of sources.
const SOURCES: [Sources; 7] = [
    Sources::Count(1),
    Sources::Count(1_000),
    Sources::Count(64_000),
    BOTNET,
    Sources::Count(256_000),
    Sources::Count(1_000_000),
    Sources::Endless,
];

/// The row that ratios refer to.
pub(crate) const PLAIN_DROP: &str = Limiter::Floor.name();
pub(crate) const ONE_LINE: &str = Limiter::OneLine.name();
pub(crate) const DENIED_BY_RULE: &str = "ratelimit, denied by a rule";
pub(crate) const LIMITED: &str = "ratelimit, limit of 1/m";
pub(crate) const NFTABLES: &str = "nftables, limit of 1/m";
pub(crate) const HASHLIMIT: &str = "iptables hashlimit, limit of 1/m";

/// What receives the flood. Every limit is the one that sources are far over.
const RECEIVERS: [(&str, Limiter); 7] = [
    (PLAIN_DROP, Limiter::Floor),
    (ONE_LINE, Limiter::OneLine),
    (DENIED_BY_RULE, Limiter::Ours(&DENIED)),
    (LIMITED, Limiter::Ours(&DEFAULT)),
    ("ratelimit, limit of 1/m, --unknown 10000/s", Limiter::Ours(&UNKNOWN)),
    (NFTABLES, Limiter::Nftables),
    (HASHLIMIT, Limiter::Iptables),
];

/// Unknown sources are limited together, too.
const UNKNOWN: Configuration =
    Configuration { settings: |settings| Settings { unknown: 10_000, ..settings }, ..DEFAULT };

/// One flood against one receiver.
struct Sample {
    /// Packets per second: in the first second, and later.
    first: f64,
    later: f64,
    /// Share of all its packets.
    refused: f64,
}

/// Measures one number of sources after the other. In each of its rounds, every receiver has its turn, so that a noisy
/// moment hits all alike. Prints which receivers are missing.
pub(crate) fn run(effort: &Effort) -> Result<Vec<Attack>> {
    let sandbox = Sandbox::new();
    let receivers: Vec<_> = RECEIVERS.into_iter().filter(|(_, limiter)| limiter.is_here(&sandbox)).collect();
    let mut results = Vec::new();
    for sources in SOURCES.into_iter().filter(|sources| effort.sources.contains(sources)) {
        let mut samples: Vec<Vec<Sample>> = receivers.iter().map(|_| Vec::new()).collect();
        for round in 1..=effort.rounds {
            effort.print_progress(&format!("floods, sources: {sources}"), round);
            for ((_, limiter), samples) in receivers.iter().zip(&mut samples) {
                samples.push(sample(&sandbox, *limiter, sources, effort)?);
            }
        }
        results.extend(receivers.iter().zip(&samples).map(|((receiver, _), samples)| {
            let all = |value: fn(&Sample) -> f64| samples.iter().map(value).collect::<Vec<_>>();
            Attack {
                receiver,
                sources,
                first_second: effort.figure(&all(|sample| sample.first)),
                later: effort.figure(&all(|sample| sample.later)),
                refused: median(&all(|sample| sample.refused)),
            }
        }));
    }
    Ok(results)
}

fn sample(sandbox: &Sandbox, limiter: Limiter, sources: Sources, effort: &Effort) -> Result<Sample> {
    // As many buckets as cells.
    let standing = limiter.set_up(sandbox, Terms::Speed(State::Over), Sources::Count(1))?;
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
    let (within, over) = standing.verdicts()?;
    Ok(Sample { first, later, refused: over as f64 / (within + over) as f64 })
}

fn rate(running: &Running, time: Duration) -> f64 {
    let (begin, before) = (Instant::now(), running.sent());
    thread::sleep(time);
    (running.sent() - before) as f64 / begin.elapsed().as_secs_f64()
}

/// Returns the results as tables: of the first second, of the time later, and of what was refused.
pub(crate) fn tables(results: &[Attack]) -> [Table; 3] {
    let frames = "million 60-byte frames per second through veth on one CPU, 131,072 buckets and cells";
    let columns: Vec<_> =
        SOURCES.into_iter().filter(|sources| results.iter().any(|row| row.sources == *sources)).collect();
    let table = |title: String, figure: fn(&Attack) -> Option<f64>, digits, references| {
        let row = |name: &str| {
            let at = |sources: &Sources| {
                let row = results.iter().find(|row| row.receiver == name && row.sources == *sources);
                row.and_then(figure)
            };
            Row { name: name.to_owned(), figures: columns.iter().map(at).collect(), is_drawn: false }
        };
        let rows = RECEIVERS.iter().map(|(name, _)| row(name));
        Table {
            title,
            about: ABOUT,
            plot: None,
            axis: Axis::Logarithmic,
            columns: columns.iter().map(Sources::to_string).collect(),
            rows: rows.filter(|row| row.figures.iter().any(Option::is_some)).collect(),
            digits,
            references,
        }
    };
    [
        table(format!("{frames}, the first second of a flood"), |row| Some(row.first_second / 1e6), 2, &[PLAIN_DROP]),
        table(format!("{frames}, after more seconds"), |row| Some(row.later / 1e6), 2, &[PLAIN_DROP]),
        Table { about: "", ..table("refused packets of these floods in %".to_owned(), refused, 1, &[]) },
    ]
}

/// Returns the refused packets in percent, if there is a limiter.
fn refused(row: &Attack) -> Option<f64> {
    let has_limiter = ![PLAIN_DROP, ONE_LINE].contains(&row.receiver);
    has_limiter.then_some(row.refused * 100.0)
}

/// What the rows are.
const ABOUT: &str = "*1/m*: each source may send one packet per minute. *One line* is the plain drop, but each packet adds to one random\n\
    line of 64 bytes in 8 MB. All take turns in each round. nftables and hashlimit have space for 1,048,576 sources.";
