//! Constants that the user side sets at load.
//!
//! They are read-only data, so the verifier knows their values and removes the branches that are off.

use aya_ebpf::Global;
use ratelimit_common::maps::control::IPV6_PREFIX_DEFAULT;

/// Declares constants that are 0 unless the user side sets them.
macro_rules! constants {
    ($($name:ident: $docs:literal),+ $(,)?) => {
        $(
            #[doc = concat!("See [`ratelimit_common::maps::control::", $docs, "`].")]
            #[unsafe(no_mangle)]
            pub static $name: Global<u32> = Global::new(0);
        )+
    };
}

constants! {
    INJECTED_CLOCK: "INJECTED_CLOCK",
    SERVICES_ON: "SERVICES",
    PARENTS_ON: "PARENTS",
    LANES_ON: "LANES",
    PASS_MALFORMED: "PASS_MALFORMED",
    FRONT_CELLS: "FRONT_CELLS",
    EPOCH_SHIFT: "EPOCH_SHIFT",
    SAMPLE_ON: "SAMPLE",
    UNKNOWN_ON: "UNKNOWN",
    OWN_ON: "OWN",
    OWN_PORTS_FIRST: "OWN_PORTS_FIRST",
    OWN_PORTS_LAST: "OWN_PORTS_LAST",
    SOFT_ON: "SOFT",
    ELASTIC_ON: "ELASTIC",
    ACTIONS_ON: "ACTIONS",
    BANS_ON: "BANS",
    BYTES_ON: "BYTES",
    COSTS_ON: "COSTS",
    SHADOW_ON: "SHADOW",
    REJECT_ON: "REJECT",
    INTERFACES_ON: "INTERFACES",
    LISTS_ON: "LISTS",
    INTERFACE_MATTERS: "INTERFACE_MATTERS",
    RESIZE_ON: "RESIZE",
    OLD_CELLS: "OLD_CELLS",
}

/// See [`ratelimit_common::maps::control::IPV6_PREFIX`].
#[unsafe(no_mangle)]
pub static IPV6_PREFIX: Global<u32> = Global::new(IPV6_PREFIX_DEFAULT);

/// See [`ratelimit_common::maps::control::WINDOWS`].
#[unsafe(no_mangle)]
pub static WINDOWS_ON: Global<u32> = Global::new(cfg!(test) as u32);

/// See [`ratelimit_common::maps::control::SLIDING_LOGS`].
#[unsafe(no_mangle)]
pub static SLIDING_LOGS_ON: Global<u32> = Global::new(cfg!(test) as u32);

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

/// Returns whether packets of this host's own connections are spared.
#[inline(always)]
#[must_use]
pub fn spares_own() -> bool {
    is_on(&OWN_ON)
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
