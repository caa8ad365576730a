//! The kernel-side object that this library carries, and how it is loaded.

use std::path::Path;

use aya::{Ebpf, EbpfLoader, programs::Xdp};
use ratelimit_common::{control, map};

use super::{Error, error::Tried as _};

/// The object, built by the build script.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/ratelimit-ebpf"));

/// Smallest size of a ring buffer, for messages that are switched off: one page.
const NO_LOGS: u32 = 4_096;

/// Size of the ring buffer of messages, in bytes.
const LOGS: u32 = 1 << 17;

/// What is fixed while the program is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Bits of an IPv6 address that make a source, 1 to 128.
    pub ipv6_prefix: u32,
    /// Sources that can be tracked at a time.
    pub buckets: u32,
    /// Kernel-side messages up to this level are written; 0 is none.
    pub log_level: u8,
    /// Time comes from the control map, as tests need it.
    pub injected_clock: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            ipv6_prefix: control::IPV6_PREFIX_DEFAULT,
            buckets: map::BUCKETS_DEFAULT,
            log_level: 0,
            injected_clock: false,
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
    /// See [`Settings::log_level`].
    pub log_level: u8,
}

impl Wanted {
    /// The settings that this means where the others are `open`.
    #[must_use]
    pub fn or(&self, open: Settings) -> Settings {
        Settings {
            ipv6_prefix: self.ipv6_prefix.unwrap_or(open.ipv6_prefix),
            buckets: self.buckets.unwrap_or(open.buckets),
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
    let injected_clock = u32::from(settings.injected_clock);
    let logs = if settings.log_level == 0 { NO_LOGS } else { LOGS };
    let mut loader = EbpfLoader::new();
    loader
        .override_global(control::IPV6_PREFIX, &settings.ipv6_prefix, true)
        .override_global(control::INJECTED_CLOCK, &injected_clock, true)
        .override_global(control::LOG_LEVEL, &settings.log_level, true)
        .map_max_entries(map::BUCKETS, settings.buckets)
        .map_max_entries(map::LOGS, logs);
    if let Some(pins) = pins {
        for name in map::PINNED {
            loader.map_pin_path(name, pins.join(name));
        }
    }
    let mut object = loader.load(OBJECT).tried("cannot load the program's maps")?;
    program(&mut object)?.load().tried("the kernel refused the program")?;
    Ok(object)
}

/// The XDP program of a loaded object.
///
/// # Errors
///
/// [`Error::Bpf`] if the object has none, which the tests rule out.
pub fn program(object: &mut Ebpf) -> Result<&mut Xdp, Error> {
    let missing =
        Error::Bpf { what: "broken build", detail: format!("the object has no program {}", control::PROGRAM) };
    let program = object.program_mut(control::PROGRAM).ok_or(missing)?;
    program.try_into().tried("broken build")
}
