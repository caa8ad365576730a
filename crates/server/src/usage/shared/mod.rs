//! The same totals in the engine of a fleet, for all of its servers together.

mod name;
mod reader;
mod writer;

pub use self::{
    reader::{SharedFound, SharedReader},
    writer::SharedWriter,
};
