//! The kernel-side object that this library carries, and how it is loaded.

use std::path::{Path, PathBuf};

use aya::{Ebpf, EbpfLoader, maps::MapInfo, programs::Xdp};
use ratelimit_common::{
    control::{
        self, ADMISSIONS_DEFAULT, FEATURE_ACTIONS, FEATURE_COSTS, FEATURE_ELASTIC, FEATURE_FRONT, FEATURE_LOGS,
        FEATURE_PARENTS, FEATURE_PASS_MALFORMED, FEATURE_REJECT, FEATURE_SAMPLE, FEATURE_SERVICES, FEATURE_SHADOW,
        FEATURE_SOFT, FEATURE_STRANGERS, FEATURE_WINDOWS, REPLIES_DEFAULT,
    },
    map,
};

use super::{Error, error::Tried as _, host};

/// The object, built by the build script.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/ratelimit-ebpf"));

/// Smallest size of a ring buffer, for messages that are switched off: one page.
const NO_MESSAGES: u32 = 4_096;

/// Size of the ring buffer of messages, in bytes.
const MESSAGES: u32 = 1 << 17;

/// Kernel that has frames of several buffers for XDP.
pub(super) const FRAGS_SINCE: (u32, u32) = (5, 18);

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
    /// Packets per second of all sources together that are no regulars; 0 is no limit.
    pub strangers: u64,
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
    pub source_logs: u32,
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
    /// Packets over a limit are answered.
    pub reject: bool,
    /// Such answers per second, all CPUs together; 0 is none.
    pub replies: u64,
    /// Frames may have several buffers, as far as the driver makes such.
    pub frags: bool,
    /// Time comes from the control map, as tests need it.
    pub injected_clock: bool,
    /// What cells are found by in place of a random seed, as tests need it.
    pub fixed_seed: Option<[u64; 4]>,
    /// Nanoseconds of the coarse clock's tick then; 0 where only the precise clock is used.
    pub injected_tick: u64,
}

impl Settings {
    /// Entries of the map of logs.
    #[must_use]
    pub fn logs(&self) -> u32 {
        if self.logs { self.source_logs } else { 1 }
    }

    /// The same as [`Control::features`](ratelimit_common::control::Control::features).
    #[must_use]
    pub fn features(&self) -> u32 {
        let bit = |is_on, bit| if is_on { bit } else { 0 };
        let switches = SWITCHES.iter().map(|switch| bit(*(switch.of)(&mut self.clone()), switch.feature));
        bit(self.cells != 0, FEATURE_FRONT)
            | bit(self.sample, FEATURE_SAMPLE)
            | bit(self.strangers != 0, FEATURE_STRANGERS)
            | switches.fold(0, |features, feature| features | feature)
    }

    /// With the switches of [`Control::features`](ratelimit_common::control::Control::features) that rules turn.
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
struct Switch {
    of: fn(&mut Settings) -> &mut bool,
    /// Its bit in [`Control::features`](ratelimit_common::control::Control::features).
    feature: u32,
    /// Name of the program's constant.
    constant: &'static str,
}

const SWITCHES: [Switch; 11] = [
    Switch { of: |settings| &mut settings.services, feature: FEATURE_SERVICES, constant: control::SERVICES },
    Switch { of: |settings| &mut settings.parents, feature: FEATURE_PARENTS, constant: control::PARENTS },
    Switch {
        of: |settings| &mut settings.pass_malformed,
        feature: FEATURE_PASS_MALFORMED,
        constant: control::PASS_MALFORMED,
    },
    Switch { of: |settings| &mut settings.windows, feature: FEATURE_WINDOWS, constant: control::WINDOWS },
    Switch { of: |settings| &mut settings.logs, feature: FEATURE_LOGS, constant: control::LOGS },
    Switch { of: |settings| &mut settings.soft, feature: FEATURE_SOFT, constant: control::SOFT },
    Switch { of: |settings| &mut settings.elastic, feature: FEATURE_ELASTIC, constant: control::ELASTIC },
    Switch { of: |settings| &mut settings.actions, feature: FEATURE_ACTIONS, constant: control::ACTIONS },
    Switch { of: |settings| &mut settings.reject, feature: FEATURE_REJECT, constant: control::REJECT },
    Switch { of: |settings| &mut settings.costs, feature: FEATURE_COSTS, constant: control::COSTS },
    Switch { of: |settings| &mut settings.shadow, feature: FEATURE_SHADOW, constant: control::SHADOW },
];

impl Default for Settings {
    fn default() -> Self {
        Self {
            ipv6_prefix: control::IPV6_PREFIX_DEFAULT,
            buckets: map::BUCKETS_DEFAULT,
            cells: map::CELLS_DEFAULT,
            sample: true,
            admissions: ADMISSIONS_DEFAULT,
            strangers: 0,
            log_level: 0,
            services: false,
            parents: false,
            pass_malformed: false,
            windows: false,
            logs: false,
            source_logs: map::SOURCE_LOGS_DEFAULT,
            soft: false,
            elastic: false,
            actions: false,
            costs: false,
            shadow: false,
            reject: false,
            replies: REPLIES_DEFAULT,
            frags: host::kernel_is_at_least(FRAGS_SINCE),
            injected_clock: false,
            injected_tick: 0,
            fixed_seed: None,
        }
    }
}

/// What an operator asks for; what is left open is as it was, or the default of a new instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wanted {
    /// See [`Settings::ipv6_prefix`].
    pub ipv6_prefix: Option<u32>,
    /// See [`Settings::buckets`].
    pub buckets: Option<u32>,
    /// See [`Settings::pass_malformed`].
    pub pass_malformed: Option<bool>,
    /// See [`Settings::cells`].
    pub cells: Option<u32>,
    /// See [`Settings::sample`].
    pub sample: Option<bool>,
    /// See [`Settings::admissions`].
    pub admissions: Option<u64>,
    /// See [`Settings::strangers`].
    pub strangers: Option<u64>,
    /// See [`Settings::source_logs`].
    pub source_logs: Option<u32>,
    /// See [`Settings::shadow`].
    pub shadow: Option<bool>,
    /// See [`Settings::replies`].
    pub replies: Option<u64>,
    /// See [`Settings::log_level`].
    pub log_level: u8,
}

impl Wanted {
    /// What asks for these very settings.
    #[must_use]
    pub fn of(settings: &Settings) -> Self {
        Self {
            ipv6_prefix: Some(settings.ipv6_prefix),
            buckets: Some(settings.buckets),
            pass_malformed: Some(settings.pass_malformed),
            cells: Some(settings.cells),
            sample: Some(settings.sample),
            admissions: Some(settings.admissions),
            strangers: Some(settings.strangers),
            source_logs: Some(settings.source_logs),
            shadow: Some(settings.shadow),
            replies: Some(settings.replies),
            log_level: settings.log_level,
        }
    }

    /// The settings that this means where the others are `open`.
    #[must_use]
    pub fn or(&self, open: Settings) -> Settings {
        Settings {
            ipv6_prefix: self.ipv6_prefix.unwrap_or(open.ipv6_prefix),
            buckets: self.buckets.unwrap_or(open.buckets),
            pass_malformed: self.pass_malformed.unwrap_or(open.pass_malformed),
            cells: self.cells.unwrap_or(open.cells),
            sample: self.sample.unwrap_or(open.sample),
            admissions: self.admissions.unwrap_or(open.admissions),
            strangers: self.strangers.unwrap_or(open.strangers),
            source_logs: self.source_logs.unwrap_or(open.source_logs),
            shadow: self.shadow.unwrap_or(open.shadow),
            replies: self.replies.unwrap_or(open.replies),
            log_level: self.log_level,
            ..open
        }
    }
}

/// Loads the program. Its maps are those pinned in `pins`, made and pinned there where they are missing; without `pins` they
/// belong to the program alone.
///
/// The caller has checked the shape of maps that are pinned already: aya does not.
///
/// # Errors
///
/// [`Error::Bpf`] with what the kernel or its verifier said.
pub fn load(settings: &Settings, pins: Option<&Path>) -> Result<Ebpf, Error> {
    // Strangers are told by what cells remember.
    let strangers = settings.strangers != 0 && settings.cells != 0;
    let [injected_clock, sample, strangers] = [settings.injected_clock, settings.sample, strangers].map(u32::from);
    let switches = SWITCHES.map(|switch| u32::from(*(switch.of)(&mut settings.clone())));
    let messages = if settings.log_level == 0 { NO_MESSAGES } else { MESSAGES };
    let mut loader = EbpfLoader::new();
    for (Switch { constant, .. }, is_on) in SWITCHES.iter().zip(&switches) {
        loader.override_global(constant, is_on, true);
    }
    loader
        .override_global(control::IPV6_PREFIX, &settings.ipv6_prefix, true)
        .override_global(control::INJECTED_CLOCK, &injected_clock, true)
        .override_global(control::FRONT_CELLS, &settings.cells, true)
        .override_global(control::SAMPLE, &sample, true)
        .override_global(control::STRANGERS, &strangers, true)
        .override_global(control::LOG_LEVEL, &settings.log_level, true)
        .map_max_entries(map::BUCKETS, settings.buckets)
        .map_max_entries(map::FRONT, settings.cells.max(1))
        .map_max_entries(map::LOGS, settings.logs())
        .map_max_entries(map::MESSAGES, messages);
    if let Some(pins) = pins {
        for name in map::PINNED {
            loader.map_pin_path(name, pins.join(name));
        }
        loader.map_pin_path(map::LOGS, logs_pin(pins, settings));
    }
    let mut object = loader.load(OBJECT).tried("cannot load the program's maps")?;
    program(&mut object, settings)?.load().tried("the kernel refused the program")?;
    Ok(object)
}

/// The XDP program of an object that was loaded with these settings.
///
/// # Errors
///
/// [`Error::Bpf`] if the object has none, which the tests rule out.
pub fn program<'a>(object: &'a mut Ebpf, settings: &Settings) -> Result<&'a mut Xdp, Error> {
    let name = if settings.frags { control::PROGRAM } else { control::PROGRAM_LINEAR };
    let missing = Error::Bpf { what: "broken build", detail: format!("the object has no program {name}") };
    let program = object.program_mut(name).ok_or(missing)?;
    program.try_into().tried("broken build")
}

/// Where the map of logs is pinned that these settings need: under its name, or beside it if the one there is of another size. It takes its place
/// with the program.
pub(super) fn logs_pin(pins: &Path, settings: &Settings) -> PathBuf {
    let pin = pins.join(map::LOGS);
    match MapInfo::from_pin(&pin) {
        Ok(info) if info.max_entries() != settings.logs() => pins.join(NEW_LOGS),
        _ => pin,
    }
}

/// File of a map of logs that is about to take the place of another.
pub(super) const NEW_LOGS: &str = "LOGS_new";
