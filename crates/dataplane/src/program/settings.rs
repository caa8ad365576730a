//! Settings with which a program is loaded.

use ratelimit_common::{
    cells::bucket_filter::STEP,
    fleet::lease,
    maps::{
        constants::Constant,
        control::{
            self, ADMISSIONS_DEFAULT, Control, FEATURE_ACTIONS, FEATURE_BANS, FEATURE_BYTES, FEATURE_COSTS,
            FEATURE_DIVIDE, FEATURE_ELASTIC, FEATURE_FRONT, FEATURE_INTERFACES, FEATURE_LANES, FEATURE_LEASES,
            FEATURE_LISTS, FEATURE_OWN, FEATURE_PARENTS, FEATURE_PASS_MALFORMED, FEATURE_PROVE_TCP, FEATURE_RAW_IP,
            FEATURE_REJECT, FEATURE_SAMPLE, FEATURE_SERVICES, FEATURE_SHADOW, FEATURE_SHADOW_PROGRAMS,
            FEATURE_SLIDING_LOGS, FEATURE_SOFT, FEATURE_SPARE, FEATURE_UNKNOWN, FEATURE_UNKNOWN_LEARNED,
            FEATURE_WINDOWS, OWN_DEFAULT, PROOFS_DEFAULT, REPLIES_DEFAULT,
        },
        levels::LEVELS_MAX,
        names,
    },
};

use crate::sys::features;

/// [`Settings::unknown`]: the program learns the [rate](ratelimit_common::cells::learned_rate).
pub const LEARNED: u64 = u64::MAX;

/// Settings that are fixed while the program is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Bits of an IPv6 address that make a source, 1 to 128.
    pub ipv6_prefix: u32,
    /// Sources that can be tracked at a time.
    pub buckets: u32,
    /// Cells in front of the buckets, a power of two. 0 gives every source its own bucket.
    pub cells: u32,
    /// Sources within their limits are recorded by samples.
    pub sample: bool,
    /// New buckets per second and CPU. 0 allows none.
    pub admissions: u64,
    /// Packets per second of all unknown sources together. 0 is no limit, and [`LEARNED`] a learned one.
    pub unknown: u64,
    /// SYNs of unknown sources over their rate get a SYN cookie.
    pub prove_tcp: bool,
    /// SYN cookies per second, of all CPUs together.
    pub proofs: u64,
    /// Packets per second of each source that are spared because they belong to own connections. 0 spares none.
    pub own: u64,
    /// Nothing denies this host's own [network](ratelimit_common::rules::spared).
    pub spare: bool,
    /// The most verbose level of messages that the program writes. 0 is none.
    pub log_level: u8,
    /// The program distinguishes services.
    pub services: bool,
    /// Policies may have parents.
    pub parents: bool,
    /// Limits other than the default have levels and budgets of their own.
    pub lanes: bool,
    /// Malformed and truncated packets pass within the limit of their source.
    pub pass_malformed: bool,
    /// Limits may count in windows.
    pub windows: bool,
    /// Limits may keep sliding logs.
    pub logs: bool,
    /// Sources that can have a sliding log at a time, if limits keep any.
    pub sliding_logs: u32,
    /// Limits may be soft.
    pub soft: bool,
    /// Limits may be elastic.
    pub elastic: bool,
    /// Packets over a limit may get another action than drop.
    pub actions: bool,
    /// Limits may ban sources, or bans are in force.
    pub bans: bool,
    /// Limits may count bytes.
    pub bytes: bool,
    /// Services may have costs.
    pub costs: bool,
    /// Shadow mode: every packet passes, and is counted by its verdict.
    pub shadow: bool,
    /// Packets are counted by interface.
    pub interfaces: bool,
    /// There are lists.
    pub lists: bool,
    /// Interfaces without Ethernet headers may be attached, which need a second program.
    pub raw_ip: bool,
    /// Single interfaces may be in shadow, which need programs of their own.
    pub shadow_programs: bool,
    /// Packets over a limit may be answered.
    pub reject: bool,
    /// Answers per second, of all CPUs together. 0 is none.
    pub replies: u64,
    /// Frames may have several buffers.
    pub frags: bool,
    /// Sources may have leases of a limit that a fleet shares.
    pub leases: bool,
    /// The hosts of the fleet divide the burst of a new source.
    pub divide: bool,
    /// A resize is moving buckets and sliding logs from maps of other sizes.
    pub moving: bool,
    /// The previous number of cells while a resize moves their levels, otherwise 0.
    pub old_cells: u32,
    /// Time comes from the control map, for tests.
    pub injected_clock: bool,
    /// The seed in place of a random one, for tests.
    pub fixed_seed: Option<[u64; 4]>,
    /// Nanoseconds of the coarse clock's tick then. 0 if only the precise clock is used.
    pub injected_tick: u64,
}

impl Settings {
    /// Returns the settings of a running program with this control entry.
    #[must_use]
    pub fn running(control: &Control, buckets: u32, cells: u32) -> Self {
        let is_learned = control.features & FEATURE_UNKNOWN_LEARNED != 0;
        let settings = Self {
            ipv6_prefix: control.ipv6_prefix,
            buckets,
            cells,
            sample: control.features & FEATURE_SAMPLE != 0,
            admissions: control.admission.per_second,
            unknown: if is_learned { LEARNED } else { control.unknown.per_second },
            proofs: control.proofs.per_second,
            own: control.own.per_second,
            sliding_logs: control.sliding_logs,
            replies: control.replies.per_second,
            ..Self::default()
        };
        settings.with_features(control.features)
    }

    /// Returns the entries of a map whose size can change.
    #[must_use]
    pub fn entries(&self, name: &str) -> u32 {
        match name {
            names::BUCKETS => self.buckets,
            names::FRONT => self.cells.max(1),
            names::LEVELS => self.levels(),
            names::LEASES => self.leases(),
            names::LIST_ADDRESSES => self.of_lists(names::LIST_ADDRESSES_MAX),
            names::LIST_PREFIXES => self.of_lists(names::LIST_PREFIXES_MAX),
            _ => self.logs(),
        }
    }

    /// Returns the binary logarithm of the number of new buckets that end an
    /// [epoch](ratelimit_common::cells::bucket_filter): as many as the map holds, or a few more.
    #[must_use]
    pub fn epoch_shift(&self) -> u32 {
        self.buckets.next_power_of_two().max(STEP as u32).ilog2()
    }

    /// Returns the entries of the map of levels.
    #[must_use]
    pub fn levels(&self) -> u32 {
        if self.lanes && self.cells != 0 { LEVELS_MAX } else { 1 }
    }

    /// Returns the entries of the map of leases.
    #[must_use]
    pub fn leases(&self) -> u32 {
        if self.leases { lease::LEASES } else { 1 }
    }

    /// Returns the entries of the map of sliding logs.
    #[must_use]
    pub fn logs(&self) -> u32 {
        if self.logs { self.sliding_logs } else { 1 }
    }

    /// Returns the entries of a map of lists that has `most`, as soon as there is a list.
    fn of_lists(&self, most: u32) -> u32 {
        if self.lists { most } else { 1 }
    }

    /// Returns the features, as in [`Control::features`](ratelimit_common::maps::control::Control::features).
    #[must_use]
    pub fn features(&self) -> u32 {
        let bit = |is_on, bit| if is_on { bit } else { 0 };
        let switches = SWITCHES.iter().map(|switch| bit(*(switch.of)(&mut self.clone()), switch.feature));
        bit(self.cells != 0, FEATURE_FRONT)
            | bit(self.sample, FEATURE_SAMPLE)
            | bit(self.unknown != 0, FEATURE_UNKNOWN)
            | bit(self.unknown == LEARNED, FEATURE_UNKNOWN_LEARNED)
            | bit(self.prove_tcp, FEATURE_PROVE_TCP)
            | bit(self.own != 0, FEATURE_OWN)
            | bit(self.raw_ip, FEATURE_RAW_IP)
            | bit(self.leases, FEATURE_LEASES)
            | bit(self.divide, FEATURE_DIVIDE)
            | bit(self.shadow_programs, FEATURE_SHADOW_PROGRAMS)
            | switches.fold(0, |features, feature| features | feature)
    }

    /// Returns the settings with these [features](ratelimit_common::maps::control::Control::features).
    #[must_use]
    pub fn with_features(self, features: u32) -> Self {
        let is_on = |feature| features & feature != 0;
        let (raw_ip, shadow_programs) = (is_on(FEATURE_RAW_IP), is_on(FEATURE_SHADOW_PROGRAMS));
        let (leases, divide) = (is_on(FEATURE_LEASES), is_on(FEATURE_DIVIDE));
        let prove_tcp = is_on(FEATURE_PROVE_TCP);
        let mut settings = Self { raw_ip, shadow_programs, leases, divide, prove_tcp, ..self };
        for Switch { of, feature, .. } in SWITCHES {
            *of(&mut settings) = features & feature != 0;
        }
        settings
    }
}

/// A feature that is switched on or off while the program is loaded.
pub struct Switch {
    pub of: fn(&mut Settings) -> &mut bool,
    /// Its bit in [`Control::features`](ratelimit_common::maps::control::Control::features).
    feature: u32,
    pub constant: Constant,
}

pub const SWITCHES: [Switch; 17] = [
    Switch { of: |settings| &mut settings.services, feature: FEATURE_SERVICES, constant: Constant::Services },
    Switch { of: |settings| &mut settings.parents, feature: FEATURE_PARENTS, constant: Constant::Parents },
    Switch { of: |settings| &mut settings.lanes, feature: FEATURE_LANES, constant: Constant::Lanes },
    Switch {
        of: |settings| &mut settings.pass_malformed,
        feature: FEATURE_PASS_MALFORMED,
        constant: Constant::PassMalformed,
    },
    Switch { of: |settings| &mut settings.windows, feature: FEATURE_WINDOWS, constant: Constant::Windows },
    Switch { of: |settings| &mut settings.logs, feature: FEATURE_SLIDING_LOGS, constant: Constant::SlidingLogs },
    Switch { of: |settings| &mut settings.soft, feature: FEATURE_SOFT, constant: Constant::Soft },
    Switch { of: |settings| &mut settings.elastic, feature: FEATURE_ELASTIC, constant: Constant::Elastic },
    Switch { of: |settings| &mut settings.actions, feature: FEATURE_ACTIONS, constant: Constant::Actions },
    Switch { of: |settings| &mut settings.reject, feature: FEATURE_REJECT, constant: Constant::Reject },
    Switch { of: |settings| &mut settings.bans, feature: FEATURE_BANS, constant: Constant::Bans },
    Switch { of: |settings| &mut settings.bytes, feature: FEATURE_BYTES, constant: Constant::Bytes },
    Switch { of: |settings| &mut settings.costs, feature: FEATURE_COSTS, constant: Constant::Costs },
    Switch { of: |settings| &mut settings.shadow, feature: FEATURE_SHADOW, constant: Constant::Shadow },
    Switch { of: |settings| &mut settings.interfaces, feature: FEATURE_INTERFACES, constant: Constant::Interfaces },
    Switch { of: |settings| &mut settings.lists, feature: FEATURE_LISTS, constant: Constant::Lists },
    Switch { of: |settings| &mut settings.spare, feature: FEATURE_SPARE, constant: Constant::Spare },
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
            prove_tcp: false,
            proofs: PROOFS_DEFAULT,
            own: OWN_DEFAULT,
            spare: true,
            log_level: 0,
            services: false,
            parents: false,
            lanes: false,
            pass_malformed: false,
            windows: false,
            logs: false,
            sliding_logs: names::SLIDING_LOGS_DEFAULT,
            soft: false,
            elastic: false,
            actions: false,
            bans: false,
            bytes: false,
            costs: false,
            shadow: false,
            interfaces: false,
            lists: false,
            raw_ip: false,
            shadow_programs: false,
            reject: false,
            replies: REPLIES_DEFAULT,
            frags: features::several_buffers().unwrap_or(true),
            leases: false,
            divide: false,
            moving: false,
            old_cells: 0,
            injected_clock: false,
            injected_tick: 0,
            fixed_seed: None,
        }
    }
}
