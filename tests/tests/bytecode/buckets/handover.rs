//! Handover of debt from cells to buckets. The cost of packets determines the cell's share of the burst. Costs that
//! change must never give a source more than its burst.

use std::cell::{Cell, RefCell};

use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use ratelimit_common::{
    identity::service::{Service, Transport},
    limits::{
        algorithm::Algorithm,
        limit::{Limit, Rate, SECOND},
        policy::{MOST_COST, Policy},
    },
    meters::{
        gcra::{Units, units},
        meter::Meter,
    },
    rules::rule::COMMAND,
};
use ratelimit_dataplane::{
    program::loader::Settings,
    rules::costs::{self, Cost},
};
use ratelimit_tests::{Bytecode, Frame, Verdict};

use crate::{
    front::{Front, with_and_without_cells},
    meters::{HOUR, MINUTE, assert_all_decided, passed},
};

const SCHEDULES: u32 = 30;
/// Services to which no packet of these tests belongs.
const HTTPS: Service = Service::port(Transport::Tcp, 443);
const QUIC: Service = Service::port(Transport::Udp, 443);
/// The first source has its own rule. The second one uses the default limit.
const SOURCES: [[u8; 4]; 2] = [[192, 0, 2, 1], [198, 51, 100, 1]];

/// One step of a schedule.
#[derive(Debug, Clone)]
enum Step {
    /// A source sends packets of this length at once.
    Send { source: usize, packets: usize, length: usize },
    /// Time passes, in 16ths of the time per packet at the limit's rate.
    Wait(u64),
    /// Packets of a service get this cost.
    Set(Service, u32),
    /// Packets of a service cost one again.
    Delete(Service),
}

fn step() -> impl Strategy<Value = Step> {
    let service = || prop::sample::select(&[HTTPS, QUIC][..]);
    let send = (0..SOURCES.len(), prop_oneof![1usize..4, 1usize..30], prop_oneof![Just(60usize), 60usize..1_515]);
    prop_oneof![
        6 => send.prop_map(|(source, packets, length)| Step::Send { source, packets, length }),
        3 => (0u64..64).prop_map(Step::Wait),
        2 => (service(), 2..=MOST_COST).prop_map(|(service, cost)| Step::Set(service, cost)),
        1 => service().prop_map(Step::Delete),
    ]
}

/// Generates one packet limit, or one with a second limit of bytes or packets.
fn limit() -> impl Strategy<Value = Limit> {
    let packets = (1u64..20, prop::sample::select(&[SECOND, MINUTE, HOUR][..]));
    let packets = packets.prop_map(|(amount, period)| Rate { amount, period });
    let bytes = (1_000u64..40_000).prop_map(|amount| Rate { amount, period: SECOND });
    let more = (20u64..60).prop_map(|amount| Rate { amount, period: HOUR });
    let algorithm = prop::sample::select(&[Algorithm::TokenBucket, Algorithm::LeakyBucket][..]);
    (packets, prop::option::of(bytes), prop::option::of(more), 2u64..100, algorithm).prop_map(
        |(packets, bytes, more, burst, algorithm)| Limit {
            packets: Some(packets),
            second_packets: if bytes.is_none() { more } else { None },
            bytes,
            burst: Some(burst),
            algorithm,
        },
    )
}

/// Packets that a limit has admitted and that have not drained yet. A debt below the burst at all times means at most
/// burst + rate × time in any interval.
struct Debt<'a> {
    meter: &'a Meter,
    owed: Units,
}

impl<'a> Debt<'a> {
    fn all(policy: &'a Policy) -> Vec<Self> {
        let meters = [&policy.packets, &policy.second].into_iter().filter(|meter| meter.is_on());
        meters.map(|meter| Self { meter, owed: 0 }).collect()
    }

    fn drain(&mut self, nanoseconds: u64) {
        self.owed = self.owed.saturating_sub(units(nanoseconds));
    }

    fn charge(&mut self, amount: u32) {
        self.owed += self.meter.cost_of(amount);
    }

    fn is_within(&self) -> bool {
        self.owed <= self.meter.burst
    }

    /// Returns whether the debt exceeds the least share of the burst that belongs to the source's own bucket.
    fn refuses(&self, amount: u32) -> bool {
        self.owed + self.meter.cost_of(amount) > self.meter.rest()
    }
}

fn load(front: Front, cells: u32) -> Bytecode {
    let cells = if front.is_on() { cells } else { 0 };
    Bytecode::with(Settings { costs: true, services: true, cells, ..crate::meters::settings(front) })
}

fn set(bytecode: &mut Bytecode, service: Service, cost: u32) {
    costs::set(&mut bytecode.tables, Cost { service, cost, origin: COMMAND }).unwrap();
}

fn delete(bytecode: &mut Bytecode, service: Service) {
    costs::delete(&mut bytecode.tables, service).unwrap();
}

/// Runs random schedules with this number of cells. With more than one cell each source is alone in its cell, and every
/// refusal must be necessary.
fn check(front: Front, cells: u32) {
    let bytecode = RefCell::new(load(front, cells));
    let verdicts = RefCell::new([0u64; 2]);
    let changes = Cell::new(0u32);
    let mut runner = TestRunner::new(Config { cases: SCHEDULES, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&(limit(), prop::collection::vec(step(), 10..60)), |(limit, steps)| {
        let mut bytecode = bytecode.borrow_mut();
        for service in [HTTPS, QUIC] {
            delete(&mut bytecode, service);
        }
        let mut now = HOUR;
        bytecode.set_time(now);
        bytecode.forget();
        let policy = limit.policy().unwrap();
        bytecode.set("default", policy);
        bytecode.set("192.0.2.0/24", policy);
        let mut debts = SOURCES.map(|_| Debt::all(&policy));
        for (number, step) in steps.iter().enumerate() {
            match *step {
                Step::Wait(part) => {
                    let rate = limit.packets.unwrap();
                    let gap = rate.period / rate.amount * part / 16;
                    now += gap;
                    bytecode.set_time(now);
                    debts.iter_mut().flatten().for_each(|debt| debt.drain(gap));
                }
                Step::Set(service, cost) => {
                    set(&mut bytecode, service, cost);
                    changes.set(changes.get() + 1);
                }
                Step::Delete(service) => delete(&mut bytecode, service),
                Step::Send { source, packets, length } => {
                    let frame = Frame::udp(SOURCES[source], 9).length(length).bytes();
                    let amounts = [1, policy.second_amount(frame.len() as u32, 1)];
                    for _ in 0..packets {
                        let passes = bytecode.send(&frame) == Verdict::Pass;
                        verdicts.borrow_mut()[usize::from(passes)] += 1;
                        let debts = &mut debts[source];
                        if passes {
                            debts.iter_mut().zip(amounts).for_each(|(debt, amount)| debt.charge(amount));
                            prop_assert!(debts.iter().all(Debt::is_within), "{limit:?}: step {number} of {steps:?}");
                        } else if cells > 1 {
                            let refuses = debts.iter().zip(amounts).any(|(debt, amount)| debt.refuses(amount));
                            prop_assert!(refuses, "refused {limit:?}: step {number} of {steps:?}");
                        }
                    }
                }
            }
        }
        Ok(())
    });
    assert_eq!(outcome.err().map(|error| error.to_string()), None);
    assert_all_decided(&bytecode.into_inner());
    let [refused, admitted] = verdicts.into_inner();
    println!("{cells} cells: {admitted} packets admitted, {refused} refused, costs changed {} times", changes.get());
    assert!(refused > 400 && admitted > 400 && changes.get() > SCHEDULES, "too few verdicts were close");
}

fn a_source_alone_in_its_cell_gets_exactly_its_burst_while_costs_change(front: Front) {
    check(front, 1 << 16);
}

fn sources_in_one_cell_never_exceed_their_burst_while_costs_change(front: Front) {
    check(front, 1);
}

/// The cell gives away five of ten packets, and none if a packet can cost twenty.
fn changing_costs_of_other_services_never_raise_a_burst(front: Front) {
    for address in SOURCES {
        let mut bytecode = load(front, 1 << 16);
        bytecode.set_time(HOUR);
        let limit = Limit { packets: Some(Rate { amount: 1, period: HOUR }), burst: Some(10), ..Limit::default() };
        let policy = limit.policy().unwrap();
        bytecode.set("default", policy);
        bytecode.set("192.0.2.0/24", policy);
        let frame = Frame::udp(address, 9).bytes();
        let mut admitted = passed(&bytecode, &frame, 6);
        for _ in 0..4 {
            set(&mut bytecode, HTTPS, 20);
            admitted += passed(&bytecode, &frame, 20);
            delete(&mut bytecode, HTTPS);
            admitted += passed(&bytecode, &frame, 20);
        }
        println!("{address:?}: {admitted} packets of a burst of 10");
        assert_eq!(admitted, 10);
    }
}

/// With the highest cost, cell levels can exceed the largest debt at cost one. Two sources at their limits bring a cell
/// there.
fn deleting_a_cost_keeps_the_debt_in_the_cell(front: Front) {
    let mut bytecode = load(front, 1);
    set(&mut bytecode, HTTPS, MOST_COST);
    let mut now = HOUR;
    bytecode.set_time(now);
    let limit = Limit { packets: Some(Rate { amount: 1, period: MINUTE }), burst: Some(10), ..Limit::default() };
    let policy = limit.policy().unwrap();
    bytecode.set("default", policy);
    let mut debts = SOURCES.map(|_| Debt { meter: &policy.packets, owed: 0 });
    let mut send = |bytecode: &Bytecode, gap| {
        for (address, debt) in SOURCES.iter().zip(&mut debts) {
            debt.drain(gap);
            (0..passed(bytecode, &Frame::udp(*address, 9).bytes(), 12)).for_each(|_| debt.charge(1));
            assert!(debt.is_within(), "{address:?} owes {} of {}", debt.owed, policy.packets.burst);
        }
    };
    for _ in 0..2 * MOST_COST {
        send(&bytecode, MINUTE);
        now += MINUTE;
        bytecode.set_time(now);
    }
    delete(&mut bytecode, HTTPS);
    send(&bytecode, MINUTE);
    send(&bytecode, 0);
}

with_and_without_cells!(
    a_source_alone_in_its_cell_gets_exactly_its_burst_while_costs_change,
    sources_in_one_cell_never_exceed_their_burst_while_costs_change,
    changing_costs_of_other_services_never_raise_a_burst,
    deleting_a_cost_keeps_the_debt_in_the_cell,
);
