//! Simulated fleets that share the limit of one source.

use std::ops::Range;

use ratelimit_tests::fleet::{
    Run,
    scenario::{Scenario, Traffic},
};

use crate::table::{Axis, Row, Table};

/// Hosts of the fleets.
const HOSTS: [usize; 6] = [1, 3, 10, 100, 1_000, 10_000];
/// Hosts of the fleets to which something happens.
const FEW: [usize; 3] = [3, 100, 1_000];
/// Distance from the limit within which a fleet has settled.
const SETTLED: f64 = 0.05;
/// Second in which something happens.
const EVENT: usize = 20;
/// Seconds of the plot.
const DRAWN: Range<usize> = 16..40;

/// What all fleets have in common.
const ABOUT: &str = "\
In the tables of simulated fleets, only the share function is the product's.

A fleet shares the limit of one source: 10 packets per second for each host, and at least 1,000. Its burst is a tenth
of a second of that rate. Each host reports every 0.2 seconds. A message takes 10 ms. Rates are parts of the limit.
The least share is 1/1,024, or a tenth of an equal part if that is less. A fleet has *settled* when each further second
is within 5 % of the limit.";

/// What the last column shows.
const WEIGHTS: &str = "\
In the last column, every second host has four times the weight of the others. It compares what the odd hosts admit with
what the even hosts admit. Of three hosts, one is odd.";

/// Runs all fleets, and returns their tables.
pub(crate) fn tables() -> Vec<Table> {
    vec![floods(), calm(), events(), over_time()]
}

fn row(name: String, figures: impl IntoIterator<Item = f64>) -> Row {
    Row { name, figures: figures.into_iter().map(Some).collect(), is_drawn: false }
}

fn hosts(count: usize) -> String {
    if count == 1 { "1 host".to_owned() } else { format!("{count} hosts") }
}

/// Every host is offered ten times the limit.
fn floods() -> Table {
    let rows = HOSTS.map(|count| {
        let run = Run::of(&Scenario::new(count, Traffic::Each(10.0)));
        let last = 60;
        row(
            hosts(count),
            [
                run.mean(0..1),
                run.mean(1..2),
                run.mean(10..last),
                run.deviation(10..last),
                run.settled(0..last, SETTLED) as f64,
                run.silence(),
                run.reports(),
            ],
        )
    });
    let columns = [
        "first second",
        "second",
        "mean from 10 s on",
        "largest deviation",
        "settled after s",
        "longest silence in s",
        "reports/s",
    ];
    let table = Table::plain("a simulated fleet, each host offered ten times the limit", columns, rows.into(), 2);
    Table { about: ABOUT, ..table }
}

/// All hosts together are offered less, or little more than the limit, or one host alone is offered much.
fn calm() -> Table {
    let rows = HOSTS.map(|count| {
        let [below, above] = [0.9, 1.2].map(|rate| Run::of(&Scenario::new(count, Traffic::All(rate))));
        let alone = Run::of(&Scenario::new(count, Traffic::Alone(10.0)));
        let weights = Run::of(&Scenario { weight: 4.0, ..Scenario::new(count, Traffic::Each(10.0)) });
        let figures = [100.0 * below.refused(), below.reports(), above.mean(10..60), alone.mean(2..60)];
        let mut row = row(hosts(count), figures);
        row.figures.push((count > 1).then(|| weights.odd_to_even()));
        row
    });
    let columns = ["refused in % of 0.9 R", "reports/s", "admitted of 1.2 R", "one host alone", "odd to even hosts"];
    let table = Table::plain("a simulated fleet below and just above its limit R", columns, rows.into(), 3);
    Table { about: WEIGHTS, ..table }
}

/// Hosts join and leave, and the engine is lost.
fn events() -> Table {
    let rows = FEW.map(|count| {
        let visit = Run::of(&Scenario::new(count, Traffic::Visit(10.0, [EVENT as f64, (2 * EVENT) as f64])));
        let joined = visit.settled(EVENT..2 * EVENT, SETTLED);
        let left = visit.settled(2 * EVENT..60, SETTLED);
        let losses = [1, 10, 60].map(|seconds| {
            let lost = Run::of(&lost(count, seconds));
            lost.settled(EVENT + seconds..EVENT + seconds + EVENT, SETTLED) as f64
        });
        row(hosts(count), [joined as f64, left as f64].into_iter().chain(losses))
    });
    let columns = ["half of the hosts join", "they leave", "engine lost for 1 s", "for 10 s", "for 60 s"];
    Table::plain("seconds until a simulated fleet is within 5 % of its limit again", columns, rows.into(), 0)
}

fn lost(count: usize, seconds: usize) -> Scenario {
    let begin = EVENT as f64;
    let all = EVENT + seconds + EVENT;
    Scenario { loss: begin..begin + seconds as f64, seconds: all, ..Scenario::new(count, Traffic::Each(10.0)) }
}

/// What a fleet admits in each second, when the engine is lost for some of them.
fn over_time() -> Table {
    let rows = FEW.map(|count| {
        let run = Run::of(&lost(count, 5));
        Row { is_drawn: true, ..row(hosts(count), run.rates().skip(DRAWN.start).take(DRAWN.len()).collect::<Vec<_>>()) }
    });
    Table {
        title: "what a simulated fleet admits in each second, as a part of its limit".to_owned(),
        about: "Each host is offered ten times the limit. The engine is lost from second 20 to 25.",
        plot: Some("fleet"),
        axis: Axis::Logarithmic,
        columns: DRAWN.map(|second| second.to_string()).collect(),
        rows: rows.into(),
        digits: 2,
        references: &[],
    }
}
