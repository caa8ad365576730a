//! Policies that many tests set.

use ratelimit_common::limits::{
    limit::{Limit, Rate, SECOND},
    policy::Policy,
};

/// Returns a limit of `amount` packets per second with this burst.
///
/// # Panics
///
/// If the limit is invalid.
#[must_use]
pub fn per_second(amount: u64, burst: u64) -> Policy {
    let rate = Rate { amount, period: SECOND };
    Limit { packets: Some(rate), burst: Some(burst), ..Limit::default() }.policy().expect("the limit is invalid")
}
