//! What a row has.

use ratelimit_dataplane::program::loader::Settings;
use ratelimit_tests::{Bytecode, Sources};

use super::traffic::Traffic;

/// One row of the table.
pub(super) struct Case {
    /// The feature, and the traffic that costs most.
    pub(super) name: &'static str,
    /// Changes the default settings.
    pub(super) settings: fn(Settings) -> Settings,
    /// Sets the rules.
    pub(super) rules: fn(&mut Bytecode),
    pub(super) traffic: Traffic,
    pub(super) sources: Sources,
    /// Whether the limit of unknown sources, or another one, drops some of the packets.
    pub(super) drops: Drops,
}

/// The share of packets that a valid measurement drops.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Drops {
    None,
    Some,
    All,
}
