//! What each CPU has for itself, so that none waits for another.

use crate::boundary;

/// The entry of the map of CPUs.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cpu {
    /// State of the budget for new buckets. See [`crate::meters::gcra`].
    pub admission: u64,
    /// State of the part of that budget that records of sources which exceed nothing may use.
    pub sampling: u64,
    /// Packets of unknown sources that this CPU may still let pass.
    pub unknown_left: u64,
    /// Until when there is none to be had: units of time.
    pub unknown_until: u64,
    /// Packets of unknown sources that passed.
    pub unknown_passed: u64,
    /// Buckets that were made.
    pub admitted: u64,
    /// Buckets that the map did not take.
    pub failed: u64,
    /// Bans that the map had no room for.
    pub bans_failed: u64,
    /// Times that another CPU changed a word first.
    pub lost_races: u64,
    /// Notes that gave way to another source's while in force.
    pub displaced: u64,
    /// Packets over a limit that were answered.
    pub replies_sent: u64,
    /// Packets over a limit that could have been answered, but the budget for that was spent.
    pub replies_unsent: u64,
}
boundary!(Cpu, size 96);
