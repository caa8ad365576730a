//! The results as tables.

mod plot;
mod readme;
pub(crate) mod record;
pub(crate) mod users;
pub(crate) mod visitors;

use std::fmt::Display;

use ratelimit_tests::Sources;

use crate::{
    configurations::{self, DEFAULT, REFERENCE, SOURCES},
    measure::{Effort, accuracy, algorithms, attack, mixed, worst},
    results::{Packet, Results, TwoCpus, Worst},
    state::State,
    table::{Axis, Row, Table},
};

/// One figure: its row, column and value.
type Figure = (String, Sources, f64);

/// Returns machine, kernel and noise.
pub(crate) fn header(results: &Results) -> String {
    let Results { machine, noise, .. } = results;
    // One round has no spread.
    let noise = if results.quick {
        "quick: figures are only roughly right".to_owned()
    } else {
        format!("noise {:.1} %", noise * 100.0)
    };
    format!("{machine}, {noise}")
}

/// Returns all tables in their order.
pub(crate) fn tables(results: &Results, effort: &Effort) -> Vec<Table> {
    let live = [State::Passing, State::Over].map(|state| live(results, state));
    let rest = [
        worst::table(&results.worst),
        mixed::table(&results.mixed),
        algorithms::table(&results.by_algorithm, &results.algorithms),
        accuracy::table(&results.accuracy),
        survival(results),
        two_cpus(&results.two_cpus),
        footprint(results),
    ];
    packets(results.floor_nanoseconds, &results.packet)
        .into_iter()
        .chain(live)
        .chain(attack::tables(&results.attacks))
        .chain(users::tables(&results.users, effort.users.patience))
        .chain(rest)
        .filter(|table| !table.rows.is_empty())
        .collect()
}

/// Returns the costs of packets without a network, by state.
pub(crate) fn packets(floor: f64, packets: &[Packet]) -> Vec<Table> {
    let tables = State::ALL.map(|state| packet(floor, packets, state));
    tables.into_iter().filter(|table| !table.rows.is_empty()).collect()
}

/// Returns measurements whose packets were not in the intended state.
pub(crate) fn doubts(results: &Results) -> Vec<String> {
    let live = results.live.iter().map(|row| (row.limiter, row.state, row.sources, row.dropped));
    let live = live.filter_map(doubt);
    doubtful_packets(&results.packet)
        .chain(live)
        .chain(doubtful(&results.worst))
        .chain(mixed::doubtful(&results.mixed))
        .chain(accuracy::doubts(&results.accuracy))
        .chain(users::doubts(&results.users))
        .collect()
}

/// Returns rows without a network whose packets were not in the intended state.
pub(crate) fn doubtful_packets(packets: &[Packet]) -> impl Iterator<Item = String> {
    packets.iter().map(|row| (row.configuration, row.state, row.sources, row.dropped)).filter_map(doubt)
}

/// Returns why a row is doubtful, if it is.
fn doubt((name, state, sources, dropped): (&str, State, Sources, f64)) -> Option<String> {
    let percent = dropped * 100.0;
    let line = || format!("doubtful: {name}, {state}, {sources} sources: {percent:.1} % were over the limit");
    (!state.dropped().contains(&dropped)).then(line)
}

/// Returns worst cases whose packets were not in the intended state.
pub(crate) fn doubtful(worst: &[Worst]) -> impl Iterator<Item = String> {
    let line = |row: &Worst| format!("doubtful: {}: {:.1} % were dropped", row.name, row.dropped * 100.0);
    worst.iter().filter(|row| row.is_doubtful).map(line)
}

fn packet(floor: f64, packets: &[Packet], state: State) -> Table {
    let figures = packets.iter().filter(|packet| packet.state == state);
    let figures = figures.map(|packet| (packet.configuration.to_owned(), packet.sources, packet.nanoseconds));
    let plot = match state {
        State::Passing => "packet-passing",
        State::Held => "packet-held",
        State::Over => "packet-over",
    };
    Table {
        plot: Some(plot),
        ..by_sources(
            format!("nanoseconds per packet above an empty program ({floor:.0} ns), by number of sources: {state}"),
            figures.collect(),
            1,
        )
    }
}

fn live(results: &Results, state: State) -> Table {
    let figures = results.live.iter().filter(|live| live.state == state);
    let figures = figures.map(|live| (live.limiter.to_owned(), live.sources, live.packets_per_second / 1e6));
    let plot = if state == State::Over { "live-over" } else { "live-passing" };
    let title = format!("million 60-byte frames per second through veth on one CPU, by number of sources: {state}");
    Table { plot: Some(plot), ..by_sources(title, figures.collect(), 2) }
}

/// Returns the gain of a second CPU.
pub(crate) fn two_cpus(results: &[TwoCpus]) -> Table {
    let rows = results.iter().map(|row| Row {
        name: format!("{}, {}, {}", row.configuration, row.traffic, row.state),
        figures: [row.one / 1e6, row.two / 1e6, row.ratio].map(Some).to_vec(),
        is_drawn: false,
    });
    Table::plain("million packets per second by BPF_PROG_TEST_RUN", ["one CPU", "two CPUs", "ratio"], rows.collect(), 2)
}

fn survival(results: &Results) -> Table {
    let rows = results.survival.iter().map(|row| Row {
        name: if row.unknown == 0 { "without --unknown".to_owned() } else { format!("--unknown {}/s", row.unknown) },
        figures: [
            row.flood as f64 / 1e6,
            row.flood_passed as f64 / row.seconds,
            row.established_lost as f64,
            row.buckets as f64,
            row.buckets_lost as f64,
        ]
        .map(Some)
        .to_vec(),
        is_drawn: false,
    });
    let columns = ["M flood packets", "flood passed/s", "established packets lost", "established buckets", "evicted"];
    Table::plain("10,000 established sources beside a flood of new sources", columns, rows.collect(), 0)
}

fn footprint(results: &Results) -> Table {
    let (memory, time) = (&results.memory, &results.time);
    let row = |name: &dyn Display, figure| Row { name: name.to_string(), figures: vec![Some(figure)], is_drawn: false };
    let mut rows = vec![
        row(&"bytes of kernel memory per source", memory.per_source),
        row(&"MB of all maps, default", memory.all_maps as f64 / 1e6),
    ];
    let large = memory.maps.iter().filter(|(_, bytes)| *bytes >= 10_000);
    rows.extend(large.map(|(name, bytes)| row(&format!("  {name}"), *bytes as f64 / 1e6)));
    rows.extend([
        row(&format!("seconds to set {} rules for addresses", time.host_rules), time.set_host_rules),
        row(&format!("seconds to list {} sources", time.listed_sources), time.list_sources),
    ]);
    Table::plain("memory and time", ["default"], rows, 2)
}

/// Returns a table by row and number of sources, without empty columns.
fn by_sources(title: String, figures: Vec<Figure>, digits: usize) -> Table {
    let columns: Vec<Sources> =
        SOURCES.into_iter().filter(|sources| figures.iter().any(|figure| figure.1 == *sources)).collect();
    let mut rows: Vec<Row> = Vec::new();
    for (name, ..) in &figures {
        if rows.iter().all(|row| row.name != *name) {
            let at = |sources: &Sources| figures.iter().find(|(row, column, _)| row == name && column == sources);
            let figures = columns.iter().map(|sources| at(sources).map(|figure| figure.2)).collect();
            let is_drawn = configurations::CONFIGURATIONS
                .iter()
                .all(|configuration| configuration.name != *name || configuration.on_wire);
            rows.push(Row { name: name.clone(), figures, is_drawn });
        }
    }
    let columns = columns.iter().map(Sources::to_string).collect();
    let references = &[DEFAULT.name, REFERENCE];
    Table { title, about: "", plot: None, axis: Axis::Logarithmic, columns, rows, digits, references }
}
