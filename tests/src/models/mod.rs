//! The algorithms as their definitions have them: lists of what was admitted, in integers that nothing overflows. Nothing of the product is in
//! them but the names.

mod buckets;
pub mod tokens;
mod windows;

use ratelimit_common::limits::{algorithm::Algorithm, limit::Rate};

pub use buckets::{Leaky, Tokens};
pub use windows::{Fixed, Log, Sliding};

/// One limit of one source.
pub trait Definition {
    /// Whether a packet that counts as `amount` fits at `now`, in nanoseconds. Times never go back.
    fn fits(&self, now: u64, amount: u64) -> bool;
    /// Counts it.
    fn take(&mut self, now: u64, amount: u64);
}

/// All limits of one source: a packet passes if it fits them all, and what is refused counts nowhere.
pub struct Limits(Vec<Box<dyn Definition>>);

impl Limits {
    /// A source that has sent nothing.
    #[must_use]
    pub fn new(definitions: Vec<Box<dyn Definition>>) -> Self {
        Self(definitions)
    }

    /// Whether a packet passes that counts as so much in each limit.
    pub fn judge(&mut self, now: u64, amounts: &[u64]) -> bool {
        assert_eq!(self.0.len(), amounts.len());
        let passes = self.0.iter().zip(amounts).all(|(limit, amount)| limit.fits(now, *amount));
        if passes {
            self.0.iter_mut().zip(amounts).for_each(|(limit, amount)| limit.take(now, *amount));
        }
        passes
    }
}

/// The definition of an algorithm, for so much per period; buckets hold `burst`.
#[must_use]
pub fn define(algorithm: Algorithm, rate: Rate, burst: u64) -> Box<dyn Definition> {
    match algorithm {
        Algorithm::TokenBucket => Box::new(Tokens::full(rate, burst)),
        Algorithm::LeakyBucket => Box::new(Leaky::empty(rate, burst)),
        Algorithm::FixedWindow => Box::new(Fixed::new(rate.amount, rate.period)),
        Algorithm::SlidingWindow => Box::new(Sliding::new(rate.amount, rate.period)),
        Algorithm::SlidingLog => Box::new(Log::new(rate.amount, rate.period)),
    }
}
