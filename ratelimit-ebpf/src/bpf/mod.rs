//! Atomics, clocks, settings and other basics of the platform. No map of the product belongs here.

pub mod atomic;
pub mod clock;
pub mod random;
pub mod settings;
pub mod verifier;
