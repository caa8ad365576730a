//! Entries and memory of maps.

use ratelimit_common::maps::{
    control::FEATURE_SLIDING_LOGS,
    names::{
        BANS, BANS_MAX, BUCKETS, POLICIES, POLICIES_MAX, PREFIX_RULES, PREFIX_RULES_MAX, SLIDING_LOGS, SOURCE_RULES,
        SOURCE_RULES_MAX,
    },
};
use ratelimit_dataplane::{
    Error,
    readings::{gauges, totals},
};

use super::{page::Family, reading::Reading};

pub(super) fn families(reading: &Reading<'_>) -> Result<Vec<Family>, Error> {
    let mut entries = Family::gauge(
        "ratelimit_table_entries",
        "Entries in use of a map. Expired rules count until a command removes them, ended bans do not.",
    );
    let mut max = Family::gauge(
        "ratelimit_table_max_entries",
        "Largest number of entries of a map. When it is reached, BUCKETS and SLIDING_LOGS replace the entry that was unused for longest. Other maps accept no new entry.",
    );
    let totals::Rules { sources, prefixes, bans, policies, .. } = reading.rules;
    let mut tables = vec![
        (BUCKETS, reading.tracked.buckets, gauges::max_sources(reading.view.tables())?),
        (SOURCE_RULES, sources, SOURCE_RULES_MAX),
        (PREFIX_RULES, prefixes, PREFIX_RULES_MAX),
        (BANS, bans, BANS_MAX),
        (POLICIES, policies, POLICIES_MAX),
    ];
    if reading.control.features & FEATURE_SLIDING_LOGS != 0 {
        tables.push((SLIDING_LOGS, reading.tracked.logs, reading.control.sliding_logs));
    }
    for (name, used, most) in tables {
        entries.add([("table", name)], used);
        max.add([("table", name)], u64::from(most));
    }
    let mut memory =
        Family::gauge("ratelimit_map_memory_bytes", "Kernel memory of each map, as the kernel reports it.");
    for map in reading.view.memory()? {
        memory.add([("map", map.name)], map.bytes);
    }
    Ok(vec![entries, max, memory])
}
