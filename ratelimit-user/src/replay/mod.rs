//! Judges the packets of a capture with the program, under the clock of the capture. No packet goes through an
//! interface, and no running instance changes.

pub(crate) mod capture;
mod clock;
mod frame;
mod headers;
pub(crate) mod judge;
pub(crate) mod receivers;
mod rows;
mod rules;
pub(crate) mod tally;
