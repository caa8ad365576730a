//! Services and their classes.

use aya_ebpf::{btf_maps::Array, macros::btf_map};
use ratelimit_common::{
    identity::{
        class::{self, Class},
        service::{ClassEntry, Services},
    },
    limits::policy::{PolicyId, UNLIMITED_ID},
};

/// See [`ratelimit_common::maps::names::CLASSES`].
#[btf_map]
pub static CLASSES: Array<ClassEntry, { class::CLASSES }> = Array::new();

/// See [`ratelimit_common::maps::names::SERVICES`].
#[btf_map]
pub static SERVICES: Array<Services, 1> = Array::new();

/// Returns the classes of each protocol and port.
#[inline(always)]
#[must_use]
pub fn services() -> Option<&'static Services> {
    SERVICES.get(0)
}

/// Returns the policy of sources without a rule for this class.
#[inline(always)]
#[must_use]
pub fn default_policy(class: Class) -> PolicyId {
    CLASSES.get(u32::from(class)).map_or(UNLIMITED_ID, |entry| entry.default_policy)
}

/// Returns the cost of a packet of this class; 0 if the class has none.
#[inline(always)]
#[must_use]
pub fn cost(class: Class) -> u32 {
    CLASSES.get(u32::from(class)).map_or(0, |entry| u32::from(entry.cost))
}
