//! What a soft limit lets pass above itself: hundredths of it, by a bucket of their own.

use ratelimit_common::{algorithm::Algorithm, bucket::Resolution, gcra, policy::Policy, reason::Reason};

use crate::{
    admission,
    charge::{Charge, charge_apart},
    clock::Clock,
    front, log,
    maps::POLICIES,
    tracking,
    visit::Visit,
    windows,
};

/// Whether a packet that its limit has refused passes all the same. By the precise clock, like parents.
#[inline(never)]
#[must_use]
pub fn admits(visit: &Visit<'_>, policy: &Policy) -> bool {
    let Some(allowance) = POLICIES.get(policy.allowance) else { return false };
    let key = visit.source.allowance(policy.allowance);
    let clock = Clock::read(visit.control);
    if allowance.algorithm == Algorithm::SlidingLog as u8 {
        if log::find(&key).is_none() {
            if front::is_on() && !admission::admits(visit.control, visit.tick) {
                return false;
            }
            log::make(&key);
        }
        return log::find(&key).is_some_and(|log| log::ask(log, allowance, clock.now()) == Charge::Paid);
    }
    if tracking::find(&key).is_none() {
        if front::is_on() && !admission::admits(visit.control, visit.tick) {
            return false;
        }
        let now = gcra::units(clock.now());
        admission::make(&key, now, now, Resolution::NONE);
    }
    let Some(bucket) = tracking::find(&key) else { return false };
    let reason = match allowance.is_bucket() {
        true => bucket.charge(allowance, &clock, visit.amounts(allowance), charge_apart),
        false => windows::ask(bucket, allowance, clock.now(), visit.amounts(allowance)),
    };
    reason == Reason::WithinLimit
}
