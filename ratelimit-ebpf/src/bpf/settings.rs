//! Constants that the user side sets at load.
//!
//! They are read-only data, so the verifier knows their values and removes the branches that are off.

use aya_ebpf::Global;
use ratelimit_common::maps::control::IPV6_PREFIX_DEFAULT;

/// See [`ratelimit_common::maps::control::INJECTED_CLOCK`].
#[unsafe(no_mangle)]
pub static INJECTED_CLOCK: Global<u32> = Global::new(0);

/// See [`ratelimit_common::maps::control::IPV6_PREFIX`].
#[unsafe(no_mangle)]
pub static IPV6_PREFIX: Global<u32> = Global::new(IPV6_PREFIX_DEFAULT);

/// See [`ratelimit_common::maps::control::SERVICES`].
#[unsafe(no_mangle)]
pub static SERVICES_ON: Global<u32> = Global::new(0);

/// See [`ratelimit_common::maps::control::PARENTS`].
#[unsafe(no_mangle)]
pub static PARENTS_ON: Global<u32> = Global::new(0);

/// See [`ratelimit_common::maps::control::LANES`].
#[unsafe(no_mangle)]
pub static LANES_ON: Global<u32> = Global::new(0);

/// See [`ratelimit_common::maps::control::PASS_MALFORMED`].
#[unsafe(no_mangle)]
pub static PASS_MALFORMED: Global<u32> = Global::new(0);

/// See [`ratelimit_common::maps::control::FRONT_CELLS`].
#[unsafe(no_mangle)]
pub static FRONT_CELLS: Global<u32> = Global::new(0);

/// See [`ratelimit_common::maps::control::SAMPLE`].
#[unsafe(no_mangle)]
pub static SAMPLE_ON: Global<u32> = Global::new(0);

/// See [`ratelimit_common::maps::control::UNKNOWN`].
#[unsafe(no_mangle)]
pub static UNKNOWN_ON: Global<u32> = Global::new(0);

/// See [`ratelimit_common::maps::control::WINDOWS`].
#[unsafe(no_mangle)]
pub static WINDOWS_ON: Global<u32> = Global::new(cfg!(test) as u32);

/// See [`ratelimit_common::maps::control::SLIDING_LOGS`].
#[unsafe(no_mangle)]
pub static SLIDING_LOGS_ON: Global<u32> = Global::new(cfg!(test) as u32);

/// See [`ratelimit_common::maps::control::SOFT`].
#[unsafe(no_mangle)]
pub static SOFT_ON: Global<u32> = Global::new(0);

/// See [`ratelimit_common::maps::control::ELASTIC`].
#[unsafe(no_mangle)]
pub static ELASTIC_ON: Global<u32> = Global::new(0);

/// See [`ratelimit_common::maps::control::ACTIONS`].
#[unsafe(no_mangle)]
pub static ACTIONS_ON: Global<u32> = Global::new(0);

/// See [`ratelimit_common::maps::control::BANS`].
#[unsafe(no_mangle)]
pub static BANS_ON: Global<u32> = Global::new(0);

/// See [`ratelimit_common::maps::control::BYTES`].
#[unsafe(no_mangle)]
pub static BYTES_ON: Global<u32> = Global::new(0);

/// See [`ratelimit_common::maps::control::COSTS`].
#[unsafe(no_mangle)]
pub static COSTS_ON: Global<u32> = Global::new(0);

/// See [`ratelimit_common::maps::control::SHADOW`].
#[unsafe(no_mangle)]
pub static SHADOW_ON: Global<u32> = Global::new(0);

/// See [`ratelimit_common::maps::control::REJECT`].
#[unsafe(no_mangle)]
pub static REJECT_ON: Global<u32> = Global::new(0);

/// See [`ratelimit_common::maps::control::INTERFACES`].
#[unsafe(no_mangle)]
pub static INTERFACES_ON: Global<u32> = Global::new(0);

/// See [`ratelimit_common::maps::control::INTERFACE_MATTERS`].
#[unsafe(no_mangle)]
pub static INTERFACE_MATTERS: Global<u32> = Global::new(0);

/// See [`ratelimit_common::maps::control::RESIZE`].
#[unsafe(no_mangle)]
pub static RESIZE_ON: Global<u32> = Global::new(0);

/// See [`ratelimit_common::maps::control::OLD_CELLS`].
#[unsafe(no_mangle)]
pub static OLD_CELLS: Global<u32> = Global::new(0);

/// Returns whether a feature is on.
#[inline(always)]
#[must_use]
pub fn is_on(setting: &Global<u32>) -> bool {
    setting.load() != 0
}

/// Returns whether cells stand in front of the buckets.
#[inline(always)]
#[must_use]
pub fn has_cells() -> bool {
    is_on(&FRONT_CELLS)
}

/// Returns whether limits other than the default have levels and budgets of their own.
#[inline(always)]
#[must_use]
pub fn has_lanes() -> bool {
    is_on(&LANES_ON)
}

/// Returns whether unknown sources are limited.
#[inline(always)]
#[must_use]
pub fn limits_unknown() -> bool {
    is_on(&UNKNOWN_ON)
}

/// Returns whether limits may ban sources, or bans are in force.
#[inline(always)]
#[must_use]
pub fn has_bans() -> bool {
    is_on(&BANS_ON)
}

/// Returns whether packets of some services count as more than one.
#[inline(always)]
#[must_use]
pub fn has_costs() -> bool {
    is_on(&COSTS_ON)
}

/// Returns whether packets are told apart by service.
#[inline(always)]
#[must_use]
pub fn has_services() -> bool {
    is_on(&SERVICES_ON)
}

/// Returns whether some limits keep sliding logs.
#[inline(always)]
#[must_use]
pub fn has_sliding_logs() -> bool {
    is_on(&SLIDING_LOGS_ON)
}
