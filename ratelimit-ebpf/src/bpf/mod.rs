//! Basics of the platform: atomics, clocks, settings, random draws and what the verifier asks for. No map belongs here.

pub mod atomic;
pub mod clock;
pub mod map_flags;
pub mod random;
#[cfg(test)]
pub(crate) mod schedule;
pub mod settings;
pub mod verifier;
