//! The packet cost of leases.

use anyhow::{Result, ensure};
use ratelimit_common::{
    fleet::lease::EVERY_SOURCE,
    identity::source::Source,
    limits::{
        limit::{Limit, Rate, SECOND},
        policy::Policy,
    },
    meters::state::FIXED,
};
use ratelimit_dataplane::{
    leases::{Grant, Leases},
    program::loader::Settings,
};
use ratelimit_tests::{Bytecode, Sources, Walker};

use crate::{
    configurations::{Configuration, SPECIAL},
    measure::{
        Effort,
        noise::{median, quartiles},
        packet,
    },
    results::Packet,
    state::State,
    table::{Row, Table},
};

/// The most sources that get leases. All of them find places.
const LEASED: u32 = 1_000;
const SOURCES: &[Sources] = &[Sources::Count(1), Sources::Count(LEASED)];

/// Number of program loads, each of which measures every row once. Loads differ by more than rounds do.
const LOADS: usize = 21;
/// The same for figures that are only roughly right.
const FEW_LOADS: usize = 3;

/// The highest rate per second of a limit, and its highest burst.
const MOST: u64 = 100_000_000;

const OFF: Configuration = Configuration { name: "leases off", states: &State::ALL, sources: SOURCES, ..SPECIAL };
const ON: Configuration = Configuration { name: "leases on, no source has one", settings: with_leases, ..OFF };
const WHOLE: Configuration = Configuration { name: "leases of the whole limit", rules: whole, ..ON };
const HALF: Configuration = Configuration { name: "leases of half of twice the limit", rules: half, ..ON };
const DIVIDED: Configuration =
    Configuration { name: "bursts divided by four hosts", settings: with_division, rules: divided, ..ON };

static ROWS: [Configuration; 5] = [OFF, ON, WHOLE, HALF, DIVIDED];

fn with_leases(settings: Settings) -> Settings {
    Settings { leases: true, ..settings }
}

fn with_division(settings: Settings) -> Settings {
    Settings { leases: true, divide: true, ..settings }
}

/// Sets the limit, whose burst four hosts divide.
fn divided(bytecode: &mut Bytecode, policy: &Policy) {
    let grant = Grant { hash: EVERY_SOURCE, share: 0.25, end: u64::MAX, states: [FIXED; 2] };
    let is_granted = Leases::open(&bytecode.tables).is_ok_and(|leases| leases.grant(&grant, 0));
    // Without it, every packet is dropped, and the row is doubtful.
    bytecode.set("default", if is_granted { *policy } else { Policy::DENIED });
}

fn whole(bytecode: &mut Bytecode, policy: &Policy) {
    set(bytecode, policy, 1.0);
}

/// Sets twice the limit, of which each source gets half. So leases refuse what the limit refuses in other rows. The limit
/// that is never reached is too high for that, and half of it is not reached either.
fn half(bytecode: &mut Bytecode, policy: &Policy) {
    // Without such a policy, passing packets are dropped, and the row is doubtful.
    set(bytecode, &twice(Limit::of(policy)).policy().unwrap_or(Policy::DENIED), 0.5);
}

/// Returns twice a limit, or the highest one.
fn twice(limit: Limit) -> Limit {
    let rate = |rate: Rate| {
        let most = u128::from(MOST) * u128::from(rate.period) / u128::from(SECOND);
        Rate { amount: (2 * rate.amount).min(most as u64), ..rate }
    };
    Limit { packets: limit.packets.map(rate), burst: limit.burst.map(|burst| (2 * burst).min(MOST)), ..limit }
}

/// Sets a limit, and grants sources a lease.
fn set(bytecode: &mut Bytecode, policy: &Policy, share: f64) {
    bytecode.set("default", *policy);
    if let Err(error) = grant(bytecode, share) {
        eprintln!("no leases: {error:#}");
        // Every packet is dropped, and the row is doubtful.
        bytecode.set("default", Policy::DENIED);
    }
}

/// Grants sources leases that do not end. A lease that runs keeps what it owes.
fn grant(bytecode: &Bytecode, share: f64) -> Result<()> {
    let seed = bytecode.tables.control()?.seed;
    let leases = Leases::open(&bytecode.tables)?;
    for number in 0..LEASED {
        let hash = Source::v4(Walker::source(number).octets()).hash(&seed);
        // A count owes nothing.
        let grant = Grant { hash, share, end: u64::MAX, states: [FIXED; 2] };
        ensure!(leases.grant(&grant, 0), "there is no place for that of source {number}");
    }
    Ok(())
}

/// The figures of all loads.
pub(super) struct Results {
    /// Rows of each load, in the same order.
    loads: Vec<Vec<Packet>>,
}

/// Measures the rows.
pub(super) fn run(effort: &Effort) -> Result<Results> {
    let loads = if effort.has_special { LOADS } else { FEW_LOADS };
    let effort = Effort { rounds: 1, sources: SOURCES, has_special: true, noise: Default::default(), ..*effort };
    Ok(Results { loads: packet::loads(&effort, &ROWS, "leases", loads)? })
}

impl Results {
    /// Returns the tables of costs, differences and ratios.
    pub(super) fn tables(&self) -> Vec<Table> {
        let costs = traffic().map(|(state, sources)| Row {
            name: shown(state, sources),
            figures: ROWS.iter().map(|row| Some(median(&self.of(row, state, sources)))).collect(),
            is_drawn: false,
        });
        let names = [OFF.name, ON.name, WHOLE.name, HALF.name, DIVIDED.name];
        let costs = Table::plain(
            "nanoseconds per packet above an empty program, with and without leases",
            names,
            costs.collect(),
            1,
        );
        let more = self.compared([(ON, OFF), (DIVIDED, ON)], |one, other| one - other);
        let times = self.compared([(WHOLE, ON), (HALF, ON)], |one, other| one / other);
        let columns = ["lower quartile", "median", "upper quartile"];
        vec![
            Table { about: ABOUT, ..costs },
            Table {
                about: DIFFERENCES,
                ..Table::plain("nanoseconds more per packet while leases are on", columns, more, 1)
            },
            Table { about: RATIOS, ..Table::plain("packets with a lease as multiples of others", columns, times, 2) },
        ]
    }

    /// Returns the medians of all loads.
    pub(super) fn packets(&self) -> Vec<Packet> {
        packet::medians(&self.loads)
    }

    /// Returns quartiles over all loads of what compares two rows.
    fn compared<const N: usize>(
        &self,
        pairs: [(Configuration, Configuration); N],
        compare: fn(f64, f64) -> f64,
    ) -> Vec<Row> {
        let of = |(one, other): &(Configuration, Configuration), (state, sources)| {
            let (of_one, of_other) = (self.of(one, state, sources), self.of(other, state, sources));
            let values: Vec<_> = of_one.into_iter().zip(of_other).map(|(one, other)| compare(one, other)).collect();
            Row {
                name: format!("{}: {}", one.name, shown(state, sources)),
                figures: quartiles(&values).map(Some).to_vec(),
                is_drawn: false,
            }
        };
        pairs.iter().flat_map(|pair| traffic().map(move |traffic| of(pair, traffic))).collect()
    }

    /// Returns the cost of a row in each load.
    fn of(&self, row: &Configuration, state: State, sources: Sources) -> Vec<f64> {
        let is_it =
            |packet: &&Packet| (packet.configuration, packet.state, packet.sources) == (row.name, state, sources);
        self.loads.iter().filter_map(|load| load.iter().find(is_it)).map(|packet| packet.nanoseconds).collect()
    }
}

/// Returns all traffic that is measured.
fn traffic() -> impl Iterator<Item = (State, Sources)> {
    State::ALL.into_iter().flat_map(|state| SOURCES.iter().map(move |sources| (state, *sources)))
}

fn shown(state: State, sources: Sources) -> String {
    match sources {
        Sources::Count(1) => format!("{state}, one source"),
        sources => format!("{state}, {sources} sources"),
    }
}

/// What the first table shows.
const ABOUT: &str = "\
Each figure is the median of many loads of the programs, because the placement of its code changes the speed of a
program. *Leases of half of twice the limit* leave a source the same rate as the other columns, but the lease refuses
what the limit refuses there. *Held at the limit*: half of the packets pass. *Far over the limit*: almost none pass.";

/// What the second table shows.
const DIFFERENCES: &str = "\
Leases on and off are compared within each load. No source has a lease. The goal is at most one nanosecond. *Bursts
divided* (`start = \"share\"`) are compared with leases on.";

/// What the third table shows.
const RATIOS: &str = "\
Each figure is a multiple of *leases on, no source has one* in the same load. The goal for a source that its lease holds
is at most 1.2. A lease of the whole limit only counts packets.";

#[cfg(test)]
mod tests {
    use ratelimit_common::limits::limit::{Limit, Rate, SECOND};

    use super::{MOST, twice};

    #[test]
    fn twice_a_limit_is_valid() {
        for (amount, period, burst, expected) in [
            (1, 3_600 * SECOND, 1, (2, 2)),
            (12_500_000_000, 1_000 * SECOND, 12_500_000, (25_000_000_000, 25_000_000)),
            (MOST, SECOND, MOST, (MOST, MOST)),
        ] {
            let limit = twice(Limit { packets: Some(Rate { amount, period }), burst: Some(burst), ..Limit::default() });
            assert_eq!((limit.packets, limit.burst), (Some(Rate { amount: expected.0, period }), Some(expected.1)));
            assert!(limit.policy().is_ok(), "{limit:?}");
        }
    }
}
