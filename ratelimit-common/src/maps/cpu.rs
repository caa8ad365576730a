//! Counters and budgets of each CPU, so that no CPU waits for another.

use crate::{boundary, maps::levels::LANES, meters::gcra::Units};

/// The entry of the map of CPUs.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cpu {
    /// State of the budget for new buckets. See [`crate::meters::gcra`].
    pub admission: u64,
    /// State of the part of that budget for records of sources within their limit.
    pub sampling: u64,
    /// Packets of unknown sources that this CPU may still let pass.
    pub unknown_left: u64,
    /// Time in units until which the limit of unknown sources is spent.
    pub unknown_until: u64,
    /// Packets of unknown sources that passed.
    pub unknown_passed: u64,
    /// Buckets that were created.
    pub admitted: u64,
    /// Buckets of these that are not in the common count yet.
    pub uncounted: u64,
    /// Buckets that the map refused.
    pub failed: u64,
    /// Bans that the map had no room for.
    pub bans_failed: u64,
    /// Number of times that another CPU changed a word first.
    pub lost_races: u64,
    /// Cached refusals that were displaced by another source while in force.
    pub displaced_refusals: u64,
    /// Refused packets that are skipped before one is counted. See [`crate::cells::refused_sample`].
    pub refused_skipped: u64,
    /// Refused packets that were counted.
    pub refused_counted: u64,
    /// Packets over a limit that got a reply.
    pub replies_sent: u64,
    /// Packets over a limit that got no reply, because the budget was spent.
    pub replies_unsent: u64,
    /// States of the budgets for look-ups of TCP and of UDP sockets.
    pub own_budgets: [u64; 2],
    /// Packets whose socket was looked up.
    pub own_looked_up: u64,
    /// Packets whose socket was not looked up, because the budget of the CPU was spent.
    pub own_not_looked_up: u64,
    /// State of the budget for look-ups of connections that may prove an address.
    pub proof_budget: u64,
    /// Packets of unknown sources over their rate whose socket was looked up.
    pub proofs_looked_up: u64,
    /// Such packets whose socket was not looked up, because the budget of the CPU was spent.
    pub proofs_not_looked_up: u64,
    /// Sources that an established connection has proven.
    pub proven_by_connection: u64,
    /// Sources that a SYN cookie has proven.
    pub proven_by_cookie: u64,
    /// SYNs that got no cookie, because the budget was spent.
    pub cookies_unsent: u64,
    /// States of the budgets for new buckets of each [lane](crate::maps::levels). The first is not used.
    pub lanes: [u64; LANES as usize],
    /// What the packet has been charged so far, so that it can be given back: by its source's own limit, by its narrower
    /// parent, and by its wider one.
    pub payments: [[Payment; 2]; 3],
}
boundary!(Cpu, size 840);

/// Cost of a packet in one limit, and what each stage of the limit was charged.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Payment {
    /// Time of the packet in nanoseconds.
    pub now: u64,
    /// 1 if that is a time of the coarse clock.
    pub is_coarse: u64,
    /// See [`crate::maps::control::Control::largest_debt`].
    pub largest_debt: Units,
    /// Cost of the packet.
    pub cost: Units,
    /// Charge of the level.
    pub level: Units,
    /// Level after the charge.
    pub charged_level: u64,
    /// Charge of the bucket.
    pub own: Units,
    /// State of the bucket after the charge.
    pub charged_own: u64,
}
boundary!(Payment, size 64);
