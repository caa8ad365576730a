//! The cells of a packet.

use crate::maps::{cells::Cell, levels::Levels};

/// What a packet found in front of the buckets.
#[derive(Clone, Copy)]
pub struct Cells {
    /// Cell of the billed source.
    pub cell: &'static Cell,
    /// Levels that the packet charges.
    pub levels: &'static Levels,
    /// Cell that holds the source's cached refusal. It differs if the packet's narrowest service is not the billed one.
    pub refusals: &'static Cell,
}
