//! The limit of unknown sources, and how a source becomes known.

mod learned;

use aya::maps::IterableMap as _;
use ratelimit_common::{
    cells::{
        cached_refusal::{CachedRefusal, Refusal},
        cell::{self, Cell, RefusalSlot},
        known_source::{KEPT, KnownSource, LONGEST, SECONDS, kept},
    },
    identity::source::Source,
    limits::{
        limit::SECOND,
        policy::{DROP, Policy},
    },
    meters::gcra::units,
    reason::Reason,
};
use ratelimit_dataplane::{instance::swap::resize, program::loader::Settings};
use ratelimit_tests::{Bytecode, Clock, Frame, Order, Sources, Walker, per_second};

use super::{cell_entry_of, of_cpus, sharing};

/// One second in the clock of known sources.
pub(crate) const STEP: u64 = 1 << 30;
/// Start of the clock, at the start of such a second.
const BEGIN: u64 = 5 * STEP;

pub(crate) fn limited(unknown: u64, cells: u32) -> Bytecode {
    limited_with(Settings { unknown, cells, ..crate::settings() })
}

pub(crate) fn limited_with(settings: Settings) -> Bytecode {
    let mut bytecode = Bytecode::with(settings);
    bytecode.set("default", per_second(1_000, 1_000));
    bytecode.set_time(BEGIN);
    bytecode
}

/// Returns a flood in which every packet has another source.
pub(crate) fn flood(bytecode: &Bytecode) -> Walker {
    let mut walker = Walker::new(9, 0);
    walker.lead_to(bytecode.program());
    walker
}

pub(crate) fn frame(address: [u8; 4]) -> Vec<u8> {
    Frame::udp(address, 9).bytes()
}

/// Each of these sources sends in so many different seconds, from the start of one on.
pub(crate) fn send_for(bytecode: &Bytecode, clock: &mut Clock, addresses: &[[u8; 4]], seconds: u64) {
    for second in 0..seconds {
        for address in addresses {
            bytecode.send(&frame(*address));
        }
        if second + 1 < seconds {
            clock.advance(STEP);
        }
    }
}

/// Makes these sources known.
fn make_known(bytecode: &Bytecode, clock: &mut Clock, addresses: &[[u8; 4]]) {
    send_for(bytecode, clock, addresses, SECONDS);
}

/// Returns the place of a source, in its own cell or in the next one.
fn remembered(bytecode: &Bytecode, address: [u8; 4]) -> Option<KnownSource> {
    let hash = Source::v4(address).hash(&bytecode.tables.control().unwrap().seed);
    let cells = bytecode.tables.front.open().unwrap();
    let index = cell::index(hash, cells.len());
    let places = [index, index ^ 1].map(|index| cells.get(&(index % cells.len()), 0).unwrap().known());
    places.into_iter().flatten().map(KnownSource).find(|known| known.is(hash))
}

pub(crate) fn is_known(bytecode: &Bytecode, address: [u8; 4]) -> bool {
    remembered(bytecode, address).is_some_and(KnownSource::is_known)
}

pub(crate) fn all(bytecode: &Bytecode) -> Vec<KnownSource> {
    let memory = bytecode.tables.front.open().unwrap().iter().map(Result::unwrap);
    memory.flat_map(|cell: Cell| cell.known().map(KnownSource)).collect()
}

#[test]
fn a_flood_from_forged_sources_gets_the_unknown_rate_and_no_forged_source_becomes_known() {
    for unknown in [100, 10_000, 250_000] {
        let bytecode = limited(unknown, 1 << 14);
        let (mut clock, mut walker) = (bytecode.clock(), flood(&bytecode));
        let (seconds, steps) = (10, 100);
        for _ in 0..seconds * steps {
            walker.run(Sources::Endless, Order::InTurn, u32::try_from(2 * unknown / steps).unwrap());
            clock.advance(SECOND / steps);
        }
        let passed = bytecode.count(Reason::WithinLimit);
        assert_eq!(passed + bytecode.count(Reason::OverUnknown), 2 * unknown * seconds);
        assert_eq!(passed, of_cpus(&bytecode, |cpu| cpu.unknown_passed));
        let control = bytecode.tables.control().unwrap();
        let batches = control.unknown_batch * bytecode.tables.cpus.open().unwrap().get(&0, 0).unwrap().len() as u64;
        let most = unknown * seconds + unknown / 5 + batches;
        assert!(passed <= most, "{passed} of {most}");
        assert!(passed >= unknown * seconds * 99 / 100, "{passed} of {most}");
        assert!(!all(&bytecode).into_iter().any(KnownSource::is_known));
    }
}

#[test]
fn a_source_that_passed_in_three_seconds_is_never_refused_as_unknown() {
    let bytecode = limited(1_000, 1 << 14);
    let (mut clock, mut walker) = (bytecode.clock(), flood(&bytecode));
    let address = [192, 0, 2, 1];
    let frame = frame(address);
    // A refused packet does not count.
    for _ in 0..2 * SECONDS {
        walker.run(Sources::Endless, Order::InTurn, 2_000);
        for _ in 0..10 {
            assert_eq!(bytecode.reason(&frame), Reason::OverUnknown);
        }
        clock.advance(STEP);
    }
    assert_eq!(remembered(&bytecode, address), None);
    // Two packets in one second count once.
    for _ in 0..SECONDS {
        for _ in 0..10 {
            assert_eq!(bytecode.reason(&frame), Reason::WithinLimit);
        }
        walker.run(Sources::Endless, Order::InTurn, 2_000);
        clock.advance(STEP);
    }
    for _ in 0..200 {
        assert_eq!(bytecode.reason(&frame), Reason::WithinLimit);
        clock.advance(STEP / 2);
        walker.run(Sources::Endless, Order::InTurn, 1_000);
    }
    assert!(bytecode.count(Reason::OverUnknown) > 50_000);
    // Its own limit still applies.
    bytecode.repeat(&frame, 1_001);
    assert_eq!(bytecode.reason(&frame), Reason::OverPackets);
}

/// Returns addresses of which at most two share a cell.
pub(crate) fn two_in_a_cell(bytecode: &Bytecode, count: usize) -> Vec<[u8; 4]> {
    let (seed, cells) = (bytecode.tables.control().unwrap().seed, bytecode.tables.front.open().unwrap().len());
    let mut taken = vec![0; cells as usize];
    let has_room = |address: &[u8; 4]| {
        let taken = &mut taken[cell::index(Source::v4(*address).hash(&seed), cells) as usize];
        *taken += 1;
        *taken <= 2
    };
    (0x0a00_0001_u32..).map(u32::to_be_bytes).filter(has_room).take(count).collect()
}

#[test]
fn known_sources_stay_known_through_ten_minutes_of_silence_and_a_flood() {
    for per_second in [0, 12_000] {
        let bytecode = limited(10_000, 64);
        let (mut clock, mut walker) = (bytecode.clock(), flood(&bytecode));
        let addresses = two_in_a_cell(&bytecode, 64);
        send_for(&bytecode, &mut clock, &addresses, LONGEST);
        let silent_for = |clock: &mut Clock, walker: &mut Walker, steps: u64| {
            for _ in 0..steps {
                clock.advance(STEP);
                if per_second > 0 {
                    walker.run(Sources::Endless, Order::InTurn, per_second);
                }
            }
        };
        silent_for(&mut clock, &mut walker, KEPT);
        // The flood has spent the limit of unknown sources.
        walker.run(Sources::Endless, Order::InTurn, 100_000);
        for address in &addresses {
            assert_eq!(bytecode.reason(&frame(*address)), Reason::WithinLimit, "{per_second}/s: {address:?}");
        }
        silent_for(&mut clock, &mut walker, KEPT + 1);
        walker.run(Sources::Endless, Order::InTurn, 100_000);
        for address in &addresses {
            assert_eq!(bytecode.reason(&frame(*address)), Reason::OverUnknown, "{per_second}/s: {address:?}");
        }
    }
}

#[test]
fn a_cell_holds_two_sources_and_candidates_are_replaced() {
    let bytecode = limited(1_000, 1 << 10);
    let mut clock = bytecode.clock();
    let [one, two, late] = sharing(&bytecode, 3)[..] else { panic!("fewer than three addresses") };
    for address in [one, two, late] {
        bytecode.send(&frame(address));
    }
    assert!(remembered(&bytecode, one).is_some() && remembered(&bytecode, two).is_some());
    assert_eq!(remembered(&bytecode, late), None);
    // One of the two sends again in time. The other one is replaced when it expires.
    clock.advance(kept(1) * STEP);
    bytecode.send(&frame(one));
    bytecode.send(&frame(late));
    assert_eq!(remembered(&bytecode, late), None);
    clock.advance(STEP);
    bytecode.send(&frame(late));
    assert!(remembered(&bytecode, late).is_some() && remembered(&bytecode, one).is_some());
    assert_eq!(remembered(&bytecode, two), None);
    clock.advance(STEP);
    make_known(&bytecode, &mut clock, &[one, late]);
    assert!(is_known(&bytecode, one) && is_known(&bytecode, late));
    // Two known sources stay, however often others send. The third one gets a place in the neighbouring cell.
    clock.advance((kept(SECONDS) - SECONDS) * STEP);
    make_known(&bytecode, &mut clock, &[two]);
    let known = cell_entry_of(&bytecode, &Source::v4(one)).known().map(KnownSource);
    assert!(is_known(&bytecode, one) && is_known(&bytecode, late) && is_known(&bytecode, two));
    let hash = |address| Source::v4(address).hash(&bytecode.tables.control().unwrap().seed);
    assert!([one, late].iter().all(|address| known.iter().any(|known| known.is(hash(*address)))));
}

/// A larger number of cells gives free places at once, also during a flood.
#[test]
fn a_known_source_moves_to_one_of_the_cells_into_which_its_cell_is_divided() {
    let few = limited(1_000_000, 1 << 12);
    let addresses: Vec<_> = (0..2_000u16).map(|number| [10, 7, (number >> 8) as u8, number as u8]).collect();
    make_known(&few, &mut few.clock(), &addresses);
    let known = |bytecode: &Bytecode| all(bytecode).into_iter().filter(|known| known.is_known()).count();
    let before = addresses.iter().filter(|address| is_known(&few, **address)).count();
    assert!(before > 1_900 && known(&few) == before, "{before} of 2,000 are known");
    let many = limited(1_000_000, 1 << 16);
    resize::copy_cells(&few.tables, many.tables.front.open().unwrap().map(), true).unwrap();
    assert_eq!(known(&many), before);
    assert_eq!(addresses.iter().filter(|address| is_known(&many, **address)).count(), before);
}

/// Without a limit of unknown sources, a second cached refusal uses the space of known sources. It may still be there
/// when the setting changes.
#[test]
fn leftover_cached_refusals_do_not_block_entries_of_known_sources() {
    let mut bytecode = limited(100, 1);
    let mut clock = bytecode.clock();
    let until = units(BEGIN + 3_600 * SECOND);
    for number in 0..64 {
        let hash = number << 58 | number << 26;
        let refusal = Refusal {
            of_a_peer: false,
            hash,
            generation: 1,
            until,
            precise: false,
            reason: Reason::OverPackets,
            action: DROP,
            amount: 0,
            by_bytes: false,
        };
        let CachedRefusal { until, check } = CachedRefusal::new(refusal);
        bytecode
            .tables
            .front
            .open_mut()
            .unwrap()
            .set(0, Cell { refusals: [RefusalSlot::default(), RefusalSlot { until, check }], ..Cell::default() }, 0)
            .unwrap();
        let address = [192, 0, 2, number as u8];
        make_known(&bytecode, &mut clock, &[address]);
        assert!(is_known(&bytecode, address), "{number}");
    }
}

#[test]
fn rules_apply_before_the_limit_of_unknown_sources() {
    let mut bytecode = limited(100, 1 << 14);
    bytecode.set("192.0.2.1", Policy::ALLOWED);
    bytecode.set("192.0.2.2", Policy::DENIED);
    let mut walker = flood(&bytecode);
    walker.run(Sources::Endless, Order::InTurn, 10_000);
    for _ in 0..100 {
        assert_eq!(bytecode.reason(&frame([192, 0, 2, 1])), Reason::Allowed);
        assert_eq!(bytecode.reason(&frame([192, 0, 2, 2])), Reason::Denied);
        assert_eq!(bytecode.reason(&frame([192, 0, 2, 3])), Reason::OverUnknown);
    }
    assert_eq!(bytecode.count(Reason::Allowed), 100);
}

#[test]
fn without_a_limit_of_unknown_sources_nothing_is_remembered() {
    let bytecode = limited(0, 1 << 10);
    let mut walker = flood(&bytecode);
    walker.run(Sources::Endless, Order::InTurn, 100_000);
    assert_eq!(bytecode.count(Reason::WithinLimit), 100_000);
    assert_eq!(bytecode.count(Reason::OverUnknown), 0);
    assert!(all(&bytecode).iter().all(|known| *known == KnownSource::default()));
}
