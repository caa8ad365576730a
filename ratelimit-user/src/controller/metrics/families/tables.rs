//! How full the maps are, and what they take.

use ratelimit_common::maps::{
    control::FEATURE_SLIDING_LOGS,
    names::{
        BANS, BANS_MAX, BUCKETS, POLICIES, POLICIES_MAX, PREFIX_RULES, PREFIX_RULES_MAX, SLIDING_LOGS, SOURCE_RULES,
        SOURCE_RULES_MAX,
    },
};

use super::{Family, Scene};
use crate::dataplane::{Error, readings::totals};

pub(super) fn families(scene: &Scene<'_>) -> Result<Vec<Family>, Error> {
    let mut entries = Family::gauge(
        "ratelimit_table_entries",
        "Entries of a map in use, those of ended rules among them until a command clears them away.",
    );
    let mut capacity = Family::gauge(
        "ratelimit_table_max_entries",
        "Entries that it has room for. In BUCKETS and SLIDING_LOGS the longest silent one gives way then, other maps take no more.",
    );
    let totals::Rules { sources, prefixes, bans, policies, .. } = scene.rules;
    let mut tables = vec![
        (BUCKETS, scene.tracked.buckets, scene.view.tables().capacity()?),
        (SOURCE_RULES, sources, SOURCE_RULES_MAX),
        (PREFIX_RULES, prefixes, PREFIX_RULES_MAX),
        (BANS, bans, BANS_MAX),
        (POLICIES, policies, POLICIES_MAX),
    ];
    if scene.control.features & FEATURE_SLIDING_LOGS != 0 {
        tables.push((SLIDING_LOGS, scene.tracked.logs, scene.control.sliding_logs));
    }
    for (name, used, most) in tables {
        entries.add([("table", name)], used);
        capacity.add([("table", name)], u64::from(most));
    }
    let mut memory = Family::gauge("ratelimit_map_memory_bytes", "Kernel memory of each map, as the kernel tells it.");
    for map in scene.view.memory()? {
        memory.add([("map", map.name)], map.bytes);
    }
    Ok(vec![entries, capacity, memory])
}
