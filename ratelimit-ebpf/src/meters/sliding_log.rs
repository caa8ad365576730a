//! Limits that keep a log of each source: exact in every window, at the price of a map of their own.

use aya_ebpf::bindings::BPF_NOEXIST;
use ratelimit_common::{
    buckets::sliding_log::{self, PLACES, Place, decisive, place},
    identity::source::Source,
    limits::policy::Policy,
    meters::window::Window,
};

use crate::{
    bpf::{
        atomic::Word,
        settings,
        verifier::{given, key},
    },
    maps::{
        all::{EMPTY_SLIDING_LOG, SLIDING_LOGS},
        resize, this_cpu,
    },
    meters::{
        charge::{Charge, TRIES},
        token_bucket::Tracked,
    },
};

/// A [`sliding_log::Log`] as the CPUs share it.
#[repr(C)]
pub struct Logged {
    /// What is counted of its source.
    pub bucket: Tracked,
    admitted: Word,
    places: [Word; PLACES as usize],
}
const _: () = assert!(size_of::<Logged>() == size_of::<sliding_log::Log>());

/// The log of a source.
#[inline(always)]
#[must_use]
pub fn find(source: &Source) -> Option<&'static Logged> {
    // SAFETY: nothing here removes the entry, and one that the kernel recycles holds another source's words, all valid.
    let found = unsafe { SLIDING_LOGS.get(source) };
    if resize::is_on() && found.is_none() {
        resize::fetch_log(source);
        // SAFETY: as above.
        return unsafe { SLIDING_LOGS.get(source) };
    }
    found
}

/// Makes an empty log, unless another CPU was first.
#[inline(never)]
pub fn make(source: &Source) {
    let Some(empty) = EMPTY_SLIDING_LOG.get(0) else { return };
    let outcome = SLIDING_LOGS.insert(source, empty, u64::from(BPF_NOEXIST));
    if let Some(own) = this_cpu::own() {
        let count = if outcome.is_ok() { &own.admitted } else { &own.failed };
        count.increment();
    }
}

/// Whether a packet at `now` is admitted by both limits of a policy, as far as there are two. It is written into the log then.
#[inline(always)]
#[must_use]
pub fn ask(log: &Logged, policy: &Policy, now: u64) -> Charge {
    ask_log(log, policy, now)
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn ask_log(log: *const Logged, policy: *const Policy, now: u64) -> Charge {
    if !settings::is_on(&settings::SLIDING_LOGS_ON) {
        return Charge::Contended;
    }
    let (Some(log), Some(policy)) = (given(log), given(policy)) else { return Charge::Contended };
    let [first, second] = &policy.windows;
    for _ in 0..TRIES {
        let number = log.admitted.load();
        let own = log.at(number);
        let seen = Place(own.load());
        if seen.is_of(number) {
            // Another CPU has written there and not counted it yet.
            let _ = log.admitted.compare_exchange(number, number + 1);
            this_cpu::lost_race();
            continue;
        }
        let (left, also_left) = (log.left(first, number, now), log.left(second, number, now));
        if left == OVERWRITTEN || also_left == OVERWRITTEN {
            this_cpu::lost_race();
            continue;
        }
        if left != 0 || also_left != 0 {
            return Charge::Refused;
        }
        let before = Place(log.at(number.wrapping_sub(1)).load());
        let before = if number == 0 { None } else { Some(before) };
        if own.compare_exchange(seen.0, Place::new(number, now, before).0).is_ok() {
            let _ = log.admitted.compare_exchange(number, number + 1);
            return Charge::Paid;
        }
        this_cpu::lost_race();
    }
    Charge::Contended
}

/// Nanoseconds for which the log of a source refuses the next packet still.
#[inline(always)]
#[must_use]
pub fn wait(source: &Source, policy: &Policy, now: u64) -> u64 {
    wait_of_log(source, policy, now)
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn wait_of_log(source: *const Source, policy: *const Policy, now: u64) -> u64 {
    if !settings::is_on(&settings::SLIDING_LOGS_ON) {
        return 0;
    }
    let (Some(source), Some(policy)) = (given(source), given(policy)) else { return 0 };
    let Some(log) = find(&key(source)) else { return 0 };
    let ([first, second], number) = (&policy.windows, log.admitted.load());
    let left = log.left(first, number, now).max(log.left(second, number, now));
    // Whoever comes next asks again.
    if left == OVERWRITTEN { 0 } else { left }
}

/// In place of a time: the packet that decides is not there any more, since others were admitted meanwhile.
const OVERWRITTEN: u64 = u64::MAX;

impl Logged {
    #[inline(always)]
    fn at(&self, number: u64) -> &Word {
        &self.places[(place(number) % PLACES as u32) as usize]
    }

    /// Nanoseconds until the packet of this number is admitted by a limit, or [`OVERWRITTEN`].
    #[inline(always)]
    fn left(&self, window: &Window, number: u64, now: u64) -> u64 {
        let Some(decisive) = decisive(number, window.limit) else { return 0 };
        if !window.is_on() {
            return 0;
        }
        let place = Place(self.at(decisive).load());
        if place.is_of(decisive) { window.length.saturating_sub(place.age(now)) } else { OVERWRITTEN }
    }
}
