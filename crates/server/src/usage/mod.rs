//! What clients have used: totals for each client and rule by the hour, in a file or in the engine of a fleet.
//!
//! The [`Recorder`] adds up in memory, so that no request waits for the file. The [`Writer`] moves these totals into the
//! file from time to time, and the [`Reader`] reads them meanwhile. Nothing here starts a thread or reads a clock.

mod client;
mod error;
mod reader;
mod recorder;
mod row;
mod schema;
mod settings;
mod shared;
mod store;
mod writer;

pub use self::{
    client::{Pair, Pairs, label, text},
    error::UsageError,
    reader::{Found, Order, Reader, Step},
    recorder::Recorder,
    row::Totals,
    settings::{SharedUsage, UsageFile, UsageOptions, UsagePlace},
    shared::{SharedFound, SharedReader, SharedWriter},
    writer::Writer,
};

#[cfg(test)]
mod tests;
