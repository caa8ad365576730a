//! Constants that the user side sets at load. The verifier knows their values and removes what they switch off.

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
pub static WINDOWS_ON: Global<u32> = Global::new(0);

/// See [`ratelimit_common::maps::control::SLIDING_LOGS`].
#[unsafe(no_mangle)]
pub static SLIDING_LOGS_ON: Global<u32> = Global::new(0);

/// See [`ratelimit_common::maps::control::SOFT`].
#[unsafe(no_mangle)]
pub static SOFT_ON: Global<u32> = Global::new(0);

/// See [`ratelimit_common::maps::control::ELASTIC`].
#[unsafe(no_mangle)]
pub static ELASTIC_ON: Global<u32> = Global::new(0);

/// See [`ratelimit_common::maps::control::ACTIONS`].
#[unsafe(no_mangle)]
pub static ACTIONS_ON: Global<u32> = Global::new(0);

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

/// See [`ratelimit_common::maps::control::MOVING`].
#[unsafe(no_mangle)]
pub static MOVING_ON: Global<u32> = Global::new(0);

/// See [`ratelimit_common::maps::control::OLD_CELLS`].
#[unsafe(no_mangle)]
pub static OLD_CELLS: Global<u32> = Global::new(0);

/// Whether a stage is switched on.
#[inline(always)]
#[must_use]
pub fn is_on(setting: &Global<u32>) -> bool {
    setting.load() != 0
}
