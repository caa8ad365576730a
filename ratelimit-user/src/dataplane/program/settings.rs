//! What a program is loaded with.

use ratelimit_common::maps::{
    control::{
        self, ADMISSIONS_DEFAULT, Control, FEATURE_ACTIONS, FEATURE_COSTS, FEATURE_ELASTIC, FEATURE_FRONT,
        FEATURE_INTERFACES, FEATURE_PARENTS, FEATURE_PASS_MALFORMED, FEATURE_REJECT, FEATURE_SAMPLE, FEATURE_SERVICES,
        FEATURE_SHADOW, FEATURE_SLIDING_LOGS, FEATURE_SOFT, FEATURE_UNKNOWN, FEATURE_WINDOWS, REPLIES_DEFAULT,
    },
    names,
};

use crate::dataplane::{program::loader::FRAGS_SINCE, sys::host};

/// What is fixed while the program is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Bits of an IPv6 address that make a source, 1 to 128.
    pub ipv6_prefix: u32,
    /// Sources that can be tracked at a time.
    pub buckets: u32,
    /// Cells in front of the buckets, a power of two; 0 gives every source a bucket of its own.
    pub cells: u32,
    /// Sources that exceed nothing are recorded by samples.
    pub sample: bool,
    /// New buckets per second and CPU; 0 is none.
    pub admissions: u64,
    /// Packets per second of all sources together that are not known sources; 0 is no limit.
    pub unknown: u64,
    /// Kernel-side messages up to this level are written; 0 is none.
    pub log_level: u8,
    /// Packets are told apart by service.
    pub services: bool,
    /// Policies may have parents.
    pub parents: bool,
    /// Malformed and truncated packets pass as far as their source may.
    pub pass_malformed: bool,
    /// Limits may count in windows.
    pub windows: bool,
    /// Limits may keep logs.
    pub logs: bool,
    /// Sources that can have a log at a time, if limits keep any.
    pub sliding_logs: u32,
    /// Limits may let hundredths more pass.
    pub soft: bool,
    /// Limits may let everything pass while its interface has room.
    pub elastic: bool,
    /// Something else than to drop may become of what is over a limit.
    pub actions: bool,
    /// Packets of some services count as more than one.
    pub costs: bool,
    /// Every packet passes, and is counted as what would have become of it.
    pub shadow: bool,
    /// Packets are counted by interface.
    pub interfaces: bool,
    /// Packets over a limit are answered.
    pub reject: bool,
    /// Such answers per second, all CPUs together; 0 is none.
    pub replies: u64,
    /// Frames may have several buffers, as far as the driver makes such.
    pub frags: bool,
    /// Buckets and logs move from maps of other sizes.
    pub moving: bool,
    /// Cells before their number changed, while levels move; 0 otherwise.
    pub old_cells: u32,
    /// Time comes from the control map, as tests need it.
    pub injected_clock: bool,
    /// What cells are found by in place of a random seed, as tests need it.
    pub fixed_seed: Option<[u64; 4]>,
    /// Nanoseconds of the coarse clock's tick then; 0 where only the precise clock is used.
    pub injected_tick: u64,
}

impl Settings {
    /// Those of a running program with this control entry.
    #[must_use]
    pub fn running(control: &Control, buckets: u32, cells: u32) -> Self {
        let settings = Self {
            ipv6_prefix: control.ipv6_prefix,
            buckets,
            cells,
            sample: control.features & FEATURE_SAMPLE != 0,
            admissions: control.admission.per_second,
            unknown: control.unknown.per_second,
            sliding_logs: control.sliding_logs,
            replies: control.replies.per_second,
            ..Self::default()
        };
        settings.with_features(control.features)
    }

    /// Entries of a map whose size can change.
    #[must_use]
    pub fn entries(&self, name: &str) -> u32 {
        match name {
            names::BUCKETS => self.buckets,
            names::FRONT => self.cells.max(1),
            _ => self.logs(),
        }
    }

    /// Entries of the map of logs.
    #[must_use]
    pub fn logs(&self) -> u32 {
        if self.logs { self.sliding_logs } else { 1 }
    }

    /// The same as [`Control::features`](ratelimit_common::maps::control::Control::features).
    #[must_use]
    pub fn features(&self) -> u32 {
        let bit = |is_on, bit| if is_on { bit } else { 0 };
        let switches = SWITCHES.iter().map(|switch| bit(*(switch.of)(&mut self.clone()), switch.feature));
        bit(self.cells != 0, FEATURE_FRONT)
            | bit(self.sample, FEATURE_SAMPLE)
            | bit(self.unknown != 0, FEATURE_UNKNOWN)
            | switches.fold(0, |features, feature| features | feature)
    }

    /// With the switches of [`Control::features`](ratelimit_common::maps::control::Control::features) that rules turn.
    #[must_use]
    pub fn with_features(self, features: u32) -> Self {
        let mut settings = self;
        for Switch { of, feature, .. } in SWITCHES {
            *of(&mut settings) = features & feature != 0;
        }
        settings
    }
}

/// A stage that is switched on or off while the program is loaded.
pub(crate) struct Switch {
    pub(crate) of: fn(&mut Settings) -> &mut bool,
    /// Its bit in [`Control::features`](ratelimit_common::maps::control::Control::features).
    feature: u32,
    /// Name of the program's constant.
    pub(crate) constant: &'static str,
}

pub(crate) const SWITCHES: [Switch; 12] = [
    Switch { of: |settings| &mut settings.services, feature: FEATURE_SERVICES, constant: control::SERVICES },
    Switch { of: |settings| &mut settings.parents, feature: FEATURE_PARENTS, constant: control::PARENTS },
    Switch {
        of: |settings| &mut settings.pass_malformed,
        feature: FEATURE_PASS_MALFORMED,
        constant: control::PASS_MALFORMED,
    },
    Switch { of: |settings| &mut settings.windows, feature: FEATURE_WINDOWS, constant: control::WINDOWS },
    Switch { of: |settings| &mut settings.logs, feature: FEATURE_SLIDING_LOGS, constant: control::SLIDING_LOGS },
    Switch { of: |settings| &mut settings.soft, feature: FEATURE_SOFT, constant: control::SOFT },
    Switch { of: |settings| &mut settings.elastic, feature: FEATURE_ELASTIC, constant: control::ELASTIC },
    Switch { of: |settings| &mut settings.actions, feature: FEATURE_ACTIONS, constant: control::ACTIONS },
    Switch { of: |settings| &mut settings.reject, feature: FEATURE_REJECT, constant: control::REJECT },
    Switch { of: |settings| &mut settings.costs, feature: FEATURE_COSTS, constant: control::COSTS },
    Switch { of: |settings| &mut settings.shadow, feature: FEATURE_SHADOW, constant: control::SHADOW },
    Switch { of: |settings| &mut settings.interfaces, feature: FEATURE_INTERFACES, constant: control::INTERFACES },
];

impl Default for Settings {
    fn default() -> Self {
        Self {
            ipv6_prefix: control::IPV6_PREFIX_DEFAULT,
            buckets: names::BUCKETS_DEFAULT,
            cells: names::CELLS_DEFAULT,
            sample: true,
            admissions: ADMISSIONS_DEFAULT,
            unknown: 0,
            log_level: 0,
            services: false,
            parents: false,
            pass_malformed: false,
            windows: false,
            logs: false,
            sliding_logs: names::SLIDING_LOGS_DEFAULT,
            soft: false,
            elastic: false,
            actions: false,
            costs: false,
            shadow: false,
            interfaces: false,
            reject: false,
            replies: REPLIES_DEFAULT,
            frags: host::kernel_is_at_least(FRAGS_SINCE),
            moving: false,
            old_cells: 0,
            injected_clock: false,
            injected_tick: 0,
            fixed_seed: None,
        }
    }
}
