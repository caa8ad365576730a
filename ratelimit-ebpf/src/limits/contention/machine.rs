//! Sources with one limit each, in memory that all CPUs of a machine share.

use core::sync::atomic::{AtomicU64, Ordering};
use std::{boxed::Box, vec::Vec};

use ratelimit_common::{
    buckets::bucket::Resolution,
    identity::source::Source,
    limits::{
        limit::{Limit, Rate},
        policy::Policy,
    },
    maps::control::Control,
    meters::{
        gcra,
        stages::{self, Part},
    },
    reason::Reason,
};

use crate::{
    bpf::{
        atomic::Word,
        clock::Clock,
        schedule::{
            self,
            own::{self, zeros},
        },
    },
    buckets::create,
    limits::{
        contention::orders::{Order, Time},
        source_bucket,
        stages::charge_levels,
    },
    maps::{
        buckets::Bucket,
        cells::{self, Levels},
        exchange::Charge,
        sliding_logs::SlidingLog,
    },
    meters::{sliding_log, token_bucket, window},
    packet::context::{Context, Transport},
};

/// What decides about the packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Stage {
    Bucket,
    Cell,
    /// Sources without buckets. The budget of the first CPU admits them, and that of the others is spent.
    NewSource,
    Window,
    Log,
}

/// Time at which everything begins, at the start of an hour.
const BEGIN: u64 = 3_600_000_000_000 * 1_000;

/// One source.
struct Sender {
    bucket: &'static Bucket,
    log: &'static SlidingLog,
    /// Whether the bucket is in the map.
    has_bucket: &'static Word,
    passed: AtomicU64,
}

/// Sources that share a cell and have the same limit.
pub(super) struct Machine {
    stage: Stage,
    limit: Limit,
    policy: &'static Policy,
    control: &'static Control,
    clock: &'static AtomicU64,
    coarse: &'static AtomicU64,
    levels: &'static Levels,
    senders: Vec<Sender>,
}

impl Machine {
    pub(super) fn new(stage: Stage, limit: &Limit, sources: usize) -> Self {
        let policy = Box::leak(Box::new(limit.policy().expect("an invalid limit")));
        let control: &'static mut Control = Box::leak(Box::new(Control { clock: BEGIN, ..Control::default() }));
        control.largest_debt = stages::largest_debt(&policy.packets).max(stages::largest_debt(&policy.second));
        let control = &raw mut *control;
        // SAFETY: the entry is never freed. Its clocks change, and all accesses to them are volatile or atomic.
        let (control, clock, coarse) = unsafe {
            let of = |clock| AtomicU64::from_ptr(clock);
            (&*control, of(&raw mut (*control).clock), of(&raw mut (*control).coarse_clock))
        };
        let sender = |_| Sender { bucket: zeros(), log: zeros(), has_bucket: zeros(), passed: AtomicU64::new(0) };
        let senders = (0..sources).map(sender).collect();
        Self { stage, limit: *limit, policy, control, clock, coarse, levels: zeros(), senders }
    }

    /// Returns the number of packets of one source that may pass until now.
    pub(super) fn bound(&self) -> u64 {
        let time = self.clock.load(Ordering::SeqCst) - BEGIN;
        let gained = |rate: Rate| (u128::from(time) * u128::from(rate.amount) / u128::from(rate.period)) as u64;
        let bound = |rate: Rate, burst: u64| match self.stage {
            Stage::Bucket | Stage::Cell | Stage::NewSource => burst + gained(rate) + 1,
            Stage::Window | Stage::Log => rate.amount,
        };
        let first = self.limit.packets.expect("no limit of packets");
        // A second limit has the burst of its own unit of time.
        let second = self.limit.second_packets.map_or(u64::MAX, |rate| bound(rate, rate.amount));
        bound(first, self.limit.burst.unwrap_or(0)).min(second)
    }

    /// Runs the CPUs, each with packets of one source. Returns the number of packets of each source that passed.
    pub(super) fn run(&self, cpus: usize, packets: usize, order: Order, time: Time, seed: u64) -> Vec<u64> {
        let (clock, cost) = (self.clock, self.policy.packets.cost_of(1) >> gcra::FRACTION_BITS);
        let choose = order.choose(seed, move |number| time.pass(clock, cost.max(1), number));
        schedule::run(cpus, packets, choose, |cpu| {
            let sender = &self.senders[cpu % self.senders.len()];
            if self.decide(sender, cpu == 0).passes() {
                sender.passed.fetch_add(1, Ordering::SeqCst);
            }
        });
        self.senders.iter().map(|sender| sender.passed.load(Ordering::SeqCst)).collect()
    }

    /// Decides about one packet, as [`ask`](crate::limits::source_limits::ask) does.
    fn decide(&self, sender: &Sender, may_create: bool) -> Reason {
        let Sender { bucket, log, .. } = sender;
        let (policy, control, now) = (self.policy, self.control, self.clock.load(Ordering::SeqCst));
        own::join(control);
        let (clock, bucket) = (Clock::of(control, now), *bucket);
        let mut context = Context::new(Source::v4([192, 0, 2, 1]), Transport::NONE, now, [64, 1], 0);
        match self.stage {
            Stage::Bucket => {
                token_bucket::ask(bucket, policy, &clock, context.amounts(policy)).err().unwrap_or(Reason::WithinLimit)
            }
            Stage::Cell => match charge_levels(self.levels, policy, &clock, &context, Part::Share) {
                Charge::Paid => Reason::WithinLimit,
                Charge::Refused => {
                    let _ = source_bucket::ask(&mut context, control, policy, self.levels, Some(bucket));
                    context.reason
                }
            },
            Stage::NewSource => match charge_levels(self.levels, policy, &clock, &context, Part::Share) {
                Charge::Paid => Reason::WithinLimit,
                Charge::Refused => self.decide_above_share(sender, &mut context, may_create),
            },
            Stage::Window => window::ask(bucket, policy, now, context.amounts(policy)),
            Stage::Log => sliding_log::ask(log, policy, now),
        }
    }

    /// Decides about a packet of a source without a bucket, or with one that may be new, as
    /// [`ask`](crate::limits::source_limits::ask) does.
    fn decide_above_share(&self, sender: &Sender, context: &mut Context, may_create: bool) -> Reason {
        let (Sender { bucket, has_bucket, .. }, levels) = (sender, self.levels);
        let (policy, control, clock) = (self.policy, self.control, context.clock(self.control));
        if has_bucket.load() == 0 && may_create {
            let handed = |level, meter| stages::handed(cells::debt(level, &clock), clock.units(), meter);
            bucket.packets.store(handed(&levels.packets, &policy.packets));
            bucket.second.store(handed(&levels.second, &policy.second));
            bucket.resolution.store(Resolution::NEW.0);
            has_bucket.store(1);
        }
        if has_bucket.load() == 0 {
            let is_paid = charge_levels(levels, policy, &clock, context, Part::Whole) == Charge::Paid;
            return if is_paid && has_bucket.load() == 0 { Reason::WithinLimit } else { Reason::NotAdmitted };
        }
        let cached = bucket.resolution.load();
        if cached == Resolution::NEW.0 {
            self.coarse.store(self.clock.load(Ordering::SeqCst), Ordering::SeqCst);
            if !create::raise_both(bucket, levels, policy, control) {
                return Reason::NotAdmitted;
            }
            let _ = bucket.resolution.compare_exchange(cached, Resolution::NOTHING.0);
        }
        let _ = source_bucket::ask(context, control, policy, levels, Some(bucket));
        context.reason
    }
}
