//! Old names of maps and fields. An upgrade copies maps and fields by name, so it translates these first.

/// Maps that have another name since layout 12: the old name and the new one.
pub const RENAMED_MAPS: &[(&str, &str)] = &[
    ("STRANGERS", "UNKNOWN"),
    ("LOGS", "SLIDING_LOGS"),
    ("EMPTY_LOG", "EMPTY_SLIDING_LOG"),
    ("OLD_LOGS", "OLD_SLIDING_LOGS"),
    ("SHARES", "INTERFACE_COUNTERS"),
    ("CAPACITIES", "INTERFACE_CAPACITIES"),
    ("CAPACITY_LEFT", "INTERFACE_CAPACITY_LEFT"),
    ("DISCOVERY", "LINK_DISCOVERY"),
];

/// Fields that have another name since layout 12: the old name and the new one, each a whole part of a path such as
/// `admission.capacity`. No map uses an old name for another field.
pub const RENAMED_FIELDS: &[(&str, &str)] = &[
    ("strangers", "unknown"),
    ("strangers_batch", "unknown_batch"),
    ("strangers_left", "unknown_left"),
    ("strangers_until", "unknown_until"),
    ("strangers_passed", "unknown_passed"),
    ("source_logs", "sliding_logs"),
    ("fronts_since", "cell_shares_since"),
    ("displaced", "displaced_refusals"),
    ("capacity", "burst"),
    ("front", "cell_share"),
    ("notes", "refusals"),
    ("passed_packets", "passed"),
    ("dropped_packets", "dropped"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        buckets::bucket::Bucket,
        cells::cell::Cell,
        maps::{
            control::{Budget, Control},
            cpu::Cpu,
            names::{MOVED, PINNED},
        },
        meters::meter::Meter,
    };

    /// Names a field of a structure. It compiles only if the structure has the field.
    macro_rules! present {
        ($structure:ident, $field:ident) => {{
            const _: usize = core::mem::offset_of!($structure, $field);
            stringify!($field)
        }};
    }

    /// The fields of layout 11 that have another name: the old name, which is frozen, and the field of the present
    /// structure.
    const SINCE_LAYOUT_11: &[(&str, &str)] = &[
        ("strangers", present!(Control, unknown)),
        ("strangers_batch", present!(Control, unknown_batch)),
        ("source_logs", present!(Control, sliding_logs)),
        ("fronts_since", present!(Control, cell_shares_since)),
        ("capacity", present!(Budget, burst)),
        ("strangers_left", present!(Cpu, unknown_left)),
        ("strangers_until", present!(Cpu, unknown_until)),
        ("strangers_passed", present!(Cpu, unknown_passed)),
        ("displaced", present!(Cpu, displaced_refusals)),
        ("notes", present!(Cell, refusals)),
        ("capacity", present!(Meter, burst)),
        ("front", present!(Meter, cell_share)),
        ("passed_packets", present!(Bucket, passed)),
        ("dropped_packets", present!(Bucket, dropped)),
    ];

    #[test]
    fn every_renamed_map_has_a_known_new_name_and_an_unknown_old_one() {
        let is_known = |name: &str| PINNED.contains(&name) || MOVED.iter().any(|(_, old)| *old == name);
        for (old, new) in RENAMED_MAPS {
            assert!(is_known(new) && !is_known(old), "{old} {new}");
        }
    }

    #[test]
    fn no_new_field_name_is_an_old_one() {
        for (_, new) in RENAMED_FIELDS {
            assert!(RENAMED_FIELDS.iter().all(|(old, _)| old != new), "{new}");
        }
    }

    #[test]
    fn each_renamed_field_is_one_of_layout_11_and_has_its_present_name() {
        for renamed in RENAMED_FIELDS {
            assert!(SINCE_LAYOUT_11.contains(renamed), "{renamed:?}");
            assert_ne!(renamed.0, renamed.1);
        }
        for field in SINCE_LAYOUT_11 {
            assert!(RENAMED_FIELDS.contains(field), "{field:?}");
        }
    }
}
