//! The kernel-side object that this library carries, and how it is loaded.

use std::path::PathBuf;

use aya::{Ebpf, EbpfLoader, programs::Xdp};
use ratelimit_common::maps::{control, names};

pub use crate::dataplane::program::{requested::Wanted, settings::Settings};
use crate::dataplane::{
    Error,
    error::Tried as _,
    program::settings::{SWITCHES, Switch},
};

/// The object, built by the build script.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/ratelimit-ebpf"));

/// Smallest size of a ring buffer, for messages that are switched off: one page.
const NO_MESSAGES: u32 = 4_096;

/// Size of the ring buffer of messages, in bytes.
const MESSAGES: u32 = 1 << 17;

/// Kernel that has frames of several buffers for XDP.
pub const FRAGS_SINCE: (u32, u32) = (5, 18);

/// Loads the program. Its maps are those that are pinned where `pins` says, made and pinned there where they are missing; without `pins` they
/// belong to the program alone.
///
/// The caller has checked the shape of maps that are pinned already: aya does not.
///
/// # Errors
///
/// [`Error::Bpf`] with what the kernel or its verifier said.
pub fn load(settings: &Settings, pins: Option<&dyn Fn(&str) -> PathBuf>) -> Result<Ebpf, Error> {
    let mut object = maps(settings, pins)?;
    program(&mut object, settings)?.load().tried("the kernel refused the program")?;
    Ok(object)
}

/// The same without the program itself.
pub(crate) fn maps(settings: &Settings, pins: Option<&dyn Fn(&str) -> PathBuf>) -> Result<Ebpf, Error> {
    // Unknown sources are told by what cells remember.
    let unknown = settings.unknown != 0 && settings.cells != 0;
    let interface_matters = settings.parents || settings.elastic;
    let [injected_clock, sample, unknown, moving, interface_matters] =
        [settings.injected_clock, settings.sample, unknown, settings.moving, interface_matters].map(u32::from);
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
        .override_global(control::UNKNOWN, &unknown, true)
        .override_global(control::INTERFACE_MATTERS, &interface_matters, true)
        .override_global(control::MOVING, &moving, true)
        .override_global(control::OLD_CELLS, &settings.old_cells, true)
        .override_global(control::LOG_LEVEL, &settings.log_level, true)
        .map_max_entries(names::BUCKETS, settings.buckets)
        .map_max_entries(names::FRONT, settings.cells.max(1))
        .map_max_entries(names::SLIDING_LOGS, settings.logs())
        .map_max_entries(names::MESSAGES, messages);
    if let Some(pins) = pins {
        let moved = names::MOVED.into_iter().map(|(_, old)| old).filter(|old| pins(old).exists());
        for name in names::PINNED.into_iter().chain(moved) {
            loader.map_pin_path(name, pins(name));
        }
    }
    loader.load(OBJECT).tried("cannot load the program's maps")
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
