//! Builds the programs of the tests, and runs them.

pub(crate) mod bench;
pub(crate) mod crash;
pub(crate) mod demo;
pub(crate) mod fuzz;
pub(crate) mod integrations;
pub(crate) mod release;
