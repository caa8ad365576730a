//! What users feel, as tables.

use std::time::Duration;

use ratelimit_tests::Sources;

use crate::{
    flood::{KINDS, Kind, Rate},
    measure::users::protection::Protection,
    results::Felt,
    table::{Axis, Row, Table},
};

/// Share of its pages below which a server counts as lost.
const LOST: f64 = 0.1;
/// Share of its pages below which even a plain drop does not protect the server.
const NOTHING: f64 = 0.01;
/// Share of the pages behind a plain drop that the product should keep where the unprotected server is lost.
const GOAL: f64 = 0.9;

/// Share of its rate that a flood must have sent.
const ENOUGH: f64 = 0.9;

/// Returns all tables: pages and times beside each flood, what the fastest floods sent, and the figure of the goal.
pub(crate) fn tables(results: &[Felt], patience: Duration) -> Vec<Table> {
    let kinds = KINDS.into_iter().filter(|kind| of(results, *kind).next().is_some());
    let by_kind = kinds.flat_map(|kind| {
        let [pages, times] = kind.plots;
        let patience = patience.as_millis();
        [
            table(results, kind, ("pages per second beside a flood", Axis::Linear, pages), 0, |felt| Some(felt.pages)),
            table(
                results,
                kind,
                (&format!("99th percentile in ms (given up at {patience}) beside a flood"), Axis::Logarithmic, times),
                1,
                |felt| felt.milliseconds,
            ),
            table(results, kind, ("failed requests in % beside a flood", Axis::Linear, None), 1, |felt| {
                felt.failed.map(|failed| 100.0 * failed)
            }),
        ]
    });
    by_kind.chain([fastest(results), goal(results)]).collect()
}

/// Returns one line about the goal: in how many cases it is reached, and the worst of them. None if no flood stops the
/// unprotected server and leaves pages behind a plain drop.
pub(crate) fn goal_line(results: &[Felt]) -> Option<String> {
    let kept: Vec<_> = lost(results).filter_map(|(kind, rate, [.., kept, _])| Some((kind, rate, kept?))).collect();
    let by_ours: Vec<_> = kept.iter().map(|(.., kept)| *kept).collect();
    let by_one_line: Vec<_> = lost(results).filter_map(|(.., [.., kept])| kept).collect();
    let worst = kept.iter().min_by(|a, b| a.2.total_cmp(&b.2))?;
    let reached = |kept: &[f64]| kept.iter().filter(|kept| **kept >= GOAL).count();
    Some(format!(
        "where the unprotected server keeps less than {:.0} % of its pages, ratelimit keeps at least {:.0} % of those \
         behind a plain XDP drop in {} of {} cases, and one line in {} of {}; the least of ratelimit is {:.0} % beside \
         {}, {}",
        100.0 * LOST,
        100.0 * GOAL,
        reached(&by_ours),
        by_ours.len(),
        reached(&by_one_line),
        by_one_line.len(),
        100.0 * worst.2,
        worst.0,
        worst.1
    ))
}

/// Returns floods that sent less than they should, for example because of another program on their CPU.
pub(crate) fn doubts(results: &[Felt]) -> impl Iterator<Item = String> {
    results.iter().filter_map(|felt| {
        let Rate::PerSecond(asked) = felt.rate else { return None };
        let (sent, protection) = (felt.flood, felt.protection);
        let line = || format!("doubtful: a flood of {asked}/s on {protection} sent {sent:.0}/s");
        (sent < ENOUGH * f64::from(asked)).then(line)
    })
}

fn of(results: &[Felt], kind: Kind) -> impl Iterator<Item = &Felt> {
    results.iter().filter(move |felt| (felt.protocol, felt.sources) == (kind.protocol, kind.sources))
}

/// Returns a table of one figure by protection and rate.
fn table(
    results: &[Felt],
    kind: Kind,
    (what, axis, plot): (&str, Axis, Option<&'static str>),
    digits: usize,
    figure: fn(&Felt) -> Option<f64>,
) -> Table {
    let mut rates: Vec<Rate> = Vec::new();
    for felt in of(results, kind) {
        if !rates.contains(&felt.rate) {
            rates.push(felt.rate);
        }
    }
    // The others have no such limit.
    let unknown = if kind.sources == Sources::Endless { ", ratelimit with --unknown 10000/s" } else { "" };
    let row = |protection: Protection| {
        let at = |rate: &Rate| find(results, kind, *rate, protection).and_then(figure);
        Row { name: protection.name().to_owned(), figures: rates.iter().map(at).collect(), is_drawn: true }
    };
    Table {
        title: format!("{what}: {kind}{unknown}"),
        about: "",
        plot,
        axis,
        columns: rates.iter().map(Rate::to_string).collect(),
        rows: Protection::ALL.map(row).into_iter().filter(|row| row.figures.iter().any(Option::is_some)).collect(),
        digits,
        references: &[],
    }
}

fn find(results: &[Felt], kind: Kind, rate: Rate, protection: Protection) -> Option<&Felt> {
    of(results, kind).find(|felt| felt.rate == rate && felt.protection == protection.name())
}

/// Returns what the fastest floods sent.
fn fastest(results: &[Felt]) -> Table {
    let rows = KINDS.into_iter().map(|kind| Row {
        name: kind.to_string(),
        figures: Protection::ALL
            .map(|protection| find(results, kind, Rate::Most, protection).map(|felt| felt.flood / 1e6))
            .to_vec(),
        is_drawn: false,
    });
    let rows = rows.filter(|row| row.figures.iter().any(Option::is_some)).collect();
    Table::plain("million packets per second of the fastest floods", Protection::ALL.map(Protection::name), rows, 1)
}

/// Returns the cases in which the unprotected server is lost, and how much is left there.
fn goal(results: &[Felt]) -> Table {
    let rows = lost(results).map(|(kind, rate, shares)| Row {
        name: format!("{kind}, {rate}"),
        figures: shares.map(|share| share.map(|share| 100.0 * share)).to_vec(),
        is_drawn: false,
    });
    let [none, nftables, hashlimit, ours, one_line, plain] = Protection::ALL.map(Protection::name);
    let [of_plain, one_line_of_plain] = ["ratelimit of plain drop", "one line of plain drop"];
    let columns = [none, nftables, hashlimit, ours, one_line, plain, of_plain, one_line_of_plain];
    Table::plain(
        "pages in % of those without a flood, where the unprotected server keeps less than 10 %",
        columns,
        rows.collect(),
        1,
    )
}

/// Returns each flood under which the unprotected server is lost: the share of its pages without a flood that each
/// protection keeps, and the shares of the product and of one line in what the plain drop keeps, unless that is nothing.
fn lost(results: &[Felt]) -> impl Iterator<Item = (Kind, Rate, [Option<f64>; 8])> {
    let floods = results.iter().filter(|felt| felt.protection == Protection::None.name());
    floods.filter_map(|unprotected| {
        let kind = KINDS.into_iter().find(|kind| of(std::slice::from_ref(unprotected), *kind).next().is_some())?;
        let whole = find(results, kind, Rate::None, Protection::None)?.pages;
        let kept = |protection| find(results, kind, unprotected.rate, protection).map(|felt| felt.pages / whole);
        let [none, nftables, hashlimit, ours, one_line, plain] = Protection::ALL.map(kept);
        let of_plain = |kept: Option<f64>| Some(kept? / plain.filter(|plain| *plain >= NOTHING)?);
        let shares = [none, nftables, hashlimit, ours, one_line, plain, of_plain(ours), of_plain(one_line)];
        (none? < LOST).then_some((kind, unprotected.rate, shares))
    })
}
