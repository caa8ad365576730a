//! What packets cost decides which part of a burst a cell may give away. Costs of others that come and go are no way to more than a burst.

use std::cell::{Cell, RefCell};

use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use ratelimit::dataplane::{
    program::loader::Settings,
    rules::costs::{self, Cost},
};
use ratelimit_common::{
    identity::service::{Service, Transport},
    limits::{
        algorithm::Algorithm,
        limit::{Limit, Rate, SECOND},
        policy::{MOST_COST, Meter, Policy},
    },
    meters::gcra::{Units, units},
    rules::rule::COMMAND,
};
use ratelimit_tests::{Bytecode, Frame, Verdict};

use super::{HOUR, MINUTE, assert_all_judged, passed};

const SCHEDULES: u32 = 30;
/// What no packet of these tests belongs to.
const HTTPS: Service = Service::Port(Transport::Tcp, 443);
const QUIC: Service = Service::Port(Transport::Udp, 443);
/// One source has a rule of its own, the other one goes by the default.
const SOURCES: [[u8; 4]; 2] = [[192, 0, 2, 1], [198, 51, 100, 1]];

/// What happens.
#[derive(Debug, Clone)]
enum Step {
    /// Packets of a source come at once, each with so many bytes.
    Send { source: usize, packets: usize, length: usize },
    /// Time passes: so many 16ths of what a packet takes at the limit's rate.
    Wait(u64),
    /// Packets of a service cost so much.
    Set(Service, u32),
    /// They cost one again.
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

/// One limit, or one of packets and one of bytes or packets.
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

/// All that a source was admitted by one limit and that has not drained: never more than the burst if, over any time, what is admitted is at most
/// burst + rate × time.
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
        self.owed <= self.meter.capacity
    }

    /// Whether it had no room in the part of the burst that the own bucket has at least.
    fn refuses(&self, amount: u32) -> bool {
        self.owed + self.meter.cost_of(amount) > self.meter.rest()
    }
}

fn load(cells: u32) -> Bytecode {
    let cells = if crate::FRONT { cells } else { 0 };
    Bytecode::with(Settings { costs: true, services: true, cells, ..super::settings() })
}

fn set(bytecode: &mut Bytecode, service: Service, cost: u32) {
    costs::set(&mut bytecode.tables, Cost { service, cost, origin: COMMAND }).unwrap();
}

fn delete(bytecode: &mut Bytecode, service: Service) {
    costs::delete(&mut bytecode.tables, service).unwrap();
}

/// Random schedules with so many cells. Sources that are alone in theirs are also refused no more than they must be.
fn check(cells: u32) {
    let bytecode = RefCell::new(load(cells));
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
    assert_all_judged(&bytecode.into_inner());
    let [refused, admitted] = verdicts.into_inner();
    println!("{cells} cells: {admitted} packets admitted, {refused} refused, costs changed {} times", changes.get());
    assert!(refused > 400 && admitted > 400 && changes.get() > SCHEDULES, "the schedules hardly ask anything");
}

#[test]
fn a_source_alone_in_its_cell_gets_its_burst_and_no_more_while_costs_come_and_go() {
    check(1 << 16);
}

#[test]
fn sources_in_one_cell_get_no_more_than_their_burst_while_costs_come_and_go() {
    check(1);
}

/// Of ten packets the cell gives away five, and none where one packet may cost twenty.
#[test]
fn a_cost_of_others_that_comes_and_goes_gives_no_source_more_than_its_burst() {
    for address in SOURCES {
        let mut bytecode = load(1 << 16);
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

/// With the dearest packets, levels may be higher than all that a cheap one can owe. Two sources at their limits bring one there.
#[test]
fn no_cell_forgets_what_its_sources_owe_when_a_cost_is_deleted() {
    let mut bytecode = load(1);
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
            assert!(debt.is_within(), "{address:?} owes {} of {}", debt.owed, policy.packets.capacity);
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
