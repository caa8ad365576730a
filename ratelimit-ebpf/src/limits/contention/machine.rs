//! One source and its limit, in memory that all CPUs of a machine share.

use core::{
    mem::MaybeUninit,
    sync::atomic::{AtomicU64, Ordering},
};
use std::boxed::Box;

use ratelimit_common::{
    identity::source::Source,
    limits::{limit::Limit, policy::Policy},
    maps::control::Control,
    meters::{gcra, stages},
    reason::Reason,
};

use crate::{
    bpf::{clock::Clock, schedule},
    cells::level,
    limits::{
        contention::orders::{Order, Time},
        source_bucket,
    },
    maps::{buckets::Bucket, cells::Cell, exchange::Charge, sliding_logs::SlidingLog},
    meters::{sliding_log, token_bucket, window},
    packet::context::Context,
};

/// What decides about the packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Stage {
    Bucket,
    Cell,
    Window,
    Log,
}

/// Time at which everything begins, at the start of an hour.
const BEGIN: u64 = 3_600_000_000_000 * 1_000;

pub(super) struct Machine {
    stage: Stage,
    limit: Limit,
    policy: &'static Policy,
    control: &'static Control,
    clock: &'static AtomicU64,
    cell: &'static Cell,
    bucket: &'static Bucket,
    log: &'static SlidingLog,
}

/// Returns memory of zeros, which lasts as long as the test.
fn zeros<T>() -> &'static T {
    // SAFETY: the callers' types consist of words, of which any value is valid.
    Box::leak(Box::new(unsafe { MaybeUninit::<T>::zeroed().assume_init() }))
}

impl Machine {
    pub(super) fn new(stage: Stage, limit: &Limit) -> Self {
        let policy = Box::leak(Box::new(limit.policy().expect("an invalid limit")));
        let control: &'static mut Control = Box::leak(Box::new(Control { clock: BEGIN, ..Control::default() }));
        control.largest_debt = stages::largest_debt(&policy.packets).max(stages::largest_debt(&policy.second));
        let control = &raw mut *control;
        // SAFETY: the entry is never freed. Its clock changes, and all accesses to it are volatile or atomic.
        let (control, clock) = unsafe { (&*control, AtomicU64::from_ptr(&raw mut (*control).clock)) };
        Self { stage, limit: *limit, policy, control, clock, cell: zeros(), bucket: zeros(), log: zeros() }
    }

    /// Returns the number of packets that may pass until now.
    pub(super) fn bound(&self) -> u64 {
        let (rate, time) = (self.limit.packets.expect("no limit of packets"), self.clock.load(Ordering::SeqCst) - BEGIN);
        match self.stage {
            Stage::Bucket | Stage::Cell => {
                let gained = u128::from(time) * u128::from(rate.amount) / u128::from(rate.period);
                self.limit.burst.expect("no burst") + gained as u64 + 1
            }
            Stage::Window | Stage::Log => rate.amount,
        }
    }

    /// Runs the CPUs and returns the number of packets that passed.
    pub(super) fn run(&self, cpus: usize, packets: usize, order: Order, time: Time) -> u64 {
        let (clock, cost) = (self.clock, self.policy.packets.cost_of(1) >> gcra::FRACTION_BITS);
        let choose = order.choose(move |number| time.pass(clock, cost.max(1), number));
        schedule::run(cpus, packets, choose, |_| self.decide().passes())
    }

    /// Decides about one packet, as [`ask`](crate::limits::ask::ask) does.
    fn decide(&self) -> Reason {
        let (policy, control, now) = (self.policy, self.control, self.clock.load(Ordering::SeqCst));
        let mut context = Context::new(Source::v4([192, 0, 2, 1]), now, [64, 1], 0);
        match self.stage {
            Stage::Bucket => {
                token_bucket::ask(self.bucket, policy, &Clock::of(control, now), context.amounts(policy))
            }
            Stage::Cell => match level::ask(self.cell, policy, &Clock::of(control, now), &context) {
                Charge::Paid => Reason::WithinLimit,
                Charge::Refused => {
                    let bucket = Some(self.bucket);
                    let _ = source_bucket::ask(&mut context, control, policy, self.cell, bucket);
                    context.reason
                }
            },
            Stage::Window => window::ask(self.bucket, policy, now, context.amounts(policy)),
            Stage::Log => sliding_log::ask(self.log, policy, now),
        }
    }
}
