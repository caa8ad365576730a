//! Models of the algorithms from their definitions: lists of admitted packets, in integers without overflow. They share
//! only names with the product.

mod buckets;
mod definition;
pub mod tokens;
mod windows;

use ratelimit_common::limits::{algorithm::Algorithm, limit::Rate};

pub use buckets::{Leaky, Tokens};
pub use definition::Definition;
pub use windows::{Fixed, Log, Sliding};

/// All limits of one source. A packet passes if it fits all of them, and a refused packet counts in none.
pub struct Limits(Vec<Box<dyn Definition>>);

impl Limits {
    /// Returns the model of a source that has sent nothing.
    #[must_use]
    pub fn new(definitions: Vec<Box<dyn Definition>>) -> Self {
        Self(definitions)
    }

    /// Returns whether a packet with these amounts passes.
    pub fn decide(&mut self, now: u64, amounts: &[u64]) -> bool {
        assert_eq!(self.0.len(), amounts.len());
        let passes = self.0.iter().zip(amounts).all(|(limit, amount)| limit.fits(now, *amount));
        if passes {
            self.0.iter_mut().zip(amounts).for_each(|(limit, amount)| limit.take(now, *amount));
        }
        passes
    }
}

/// Returns the model of an algorithm with this rate, and a burst for buckets.
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
