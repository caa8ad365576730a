//! Loads the kernel-side object that this library contains.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    os::fd::AsFd as _,
    path::{Path, PathBuf},
};

use aya::{Ebpf, EbpfLoader, programs::Xdp};
use aya_obj::Object;
use miniz_oxide::inflate::decompress_to_vec_zlib;
use ratelimit_common::maps::{control, names};

pub use crate::program::{
    requested::RequestedSettings,
    settings::{LEARNED, Settings},
};
use crate::{
    Error,
    error::Tried as _,
    program::{constants, programs::Kind},
    sys::{bpf, link_type::FirstHeader},
};

/// The object that the build script has built and packed.
static PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/ratelimit-ebpf.zlib"));

/// The hash of that object. Layouts that another build has checked are checked again.
pub const OBJECT_HASH: &str = env!("KERNEL_OBJECT_HASH");

/// Returns the number of this build for [`Control::build`](control::Control::build). Never 0.
pub fn build() -> u32 {
    let mut hasher = DefaultHasher::new();
    OBJECT_HASH.hash(&mut hasher);
    (hasher.finish() as u32).max(1)
}

/// The smallest size of a ring buffer, one page. It is used while messages are off.
const NO_MESSAGES: u32 = 4_096;

/// Size of the ring buffer of messages, in bytes.
const MESSAGES: u32 = 1 << 17;

/// Layout of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Definition {
    /// Its type: a [`MapType`](aya::maps::MapType) as a number.
    pub kind: u32,
    pub key_size: u32,
    pub value_size: u32,
    pub max_entries: u32,
}

/// Returns the object that the build script has built.
///
/// # Errors
///
/// [`Error::Bpf`] if it cannot be unpacked, which a test rules out.
pub(super) fn object() -> Result<Vec<u8>, Error> {
    decompress_to_vec_zlib(PACKED).tried("broken build")
}

/// Returns the layouts that the object defines for the [pinned maps](names::PINNED), in their order.
///
/// # Errors
///
/// [`Error::Bpf`] if the object cannot be parsed or lacks one, which a test rules out.
pub fn definitions() -> Result<Vec<Definition>, Error> {
    let object = Object::parse(&object()?).tried("broken build")?;
    let definition = |name: &str| {
        let missing = || Error::Bpf { what: "broken build", detail: format!("the object has no map {name}") };
        let map = object.maps.get(name).ok_or_else(missing)?;
        Ok(Definition {
            kind: map.map_type(),
            key_size: map.key_size(),
            value_size: map.value_size(),
            max_entries: map.max_entries(),
        })
    };
    names::PINNED.into_iter().map(definition).collect()
}

/// Loads the program, and the one for packets without Ethernet headers if the settings want it. `pins` returns the path
/// of each map's pin. Missing maps are created and pinned there. Without `pins`, maps belong to the programs alone.
///
/// The caller has checked the layouts of pinned maps, because aya does not.
///
/// # Errors
///
/// [`Error::Bpf`] with the message of the kernel or its verifier.
pub fn load(settings: &Settings, pins: Option<&dyn Fn(&str) -> PathBuf>) -> Result<Ebpf, Error> {
    let mut object = maps(settings, pins)?;
    program(&mut object, settings, FirstHeader::Ethernet)?.load().tried("the kernel refused the program")?;
    if settings.raw_ip {
        program(&mut object, settings, FirstHeader::Ip)?.load().tried("the kernel refused the program")?;
    }
    if let Some(pins) = pins {
        bind_maps(program(&mut object, settings, FirstHeader::Ethernet)?, pins)?;
    }
    Ok(object)
}

/// Binds all pinned maps to the program for Ethernet, also those that only the user side needs. So the program tells
/// every version which maps belong to it.
fn bind_maps(program: &Xdp, pins: &dyn Fn(&str) -> PathBuf) -> Result<(), Error> {
    let program = program.fd().tried("cannot use the program")?.as_fd();
    names::PINNED.into_iter().try_for_each(|name| {
        let bound = bpf::open_pin(&pins(name)).and_then(|map| bpf::bind_map(program, map.as_fd()));
        bound.tried("cannot bind a map to the program")
    })
}

/// Creates or opens the maps, without loading a program.
pub fn maps(settings: &Settings, pins: Option<&dyn Fn(&str) -> PathBuf>) -> Result<Ebpf, Error> {
    let messages = if settings.log_level == 0 { NO_MESSAGES } else { MESSAGES };
    let mut loader = EbpfLoader::new();
    // The program reads no structure of the kernel, so the types of the kernel, 12 MB, are not needed.
    loader.btf(None);
    loader.override_global(control::LOG_LEVEL, &settings.log_level, true).map_max_entries(names::MESSAGES, messages);
    for name in names::SIZED {
        loader.map_max_entries(name, settings.entries(name));
    }
    if settings.own == 0 {
        loader.map_max_entries(names::OWN_CONNECTIONS, 1).map_max_entries(names::OWN_PEERS, 1);
    }
    if let Some(pins) = pins {
        let moved = names::MOVED.into_iter().map(|(_, old)| old).filter(|old| pins(old).exists());
        for name in names::PINNED.into_iter().chain(moved) {
            loader.map_pin_path(name, pins(name));
        }
    }
    loader.load(&constants::write(object()?, settings)?).tried("cannot load the program's maps")
}

/// Returns the XDP program of an object that was loaded with these settings, for packets that begin with this header.
///
/// # Errors
///
/// [`Error::Bpf`] if the object has none, which tests rule out.
pub fn program<'a>(object: &'a mut Ebpf, settings: &Settings, first: FirstHeader) -> Result<&'a mut Xdp, Error> {
    let name = name_of(settings, first);
    let missing = Error::Bpf { what: "broken build", detail: format!("the object has no program {name}") };
    let program = object.program_mut(name).ok_or(missing)?;
    program.try_into().tried("broken build")
}

/// Returns the name of the program for packets that begin with this header.
#[must_use]
pub fn name_of(settings: &Settings, first: FirstHeader) -> &'static str {
    match (first, settings.frags) {
        (FirstHeader::Ethernet, true) => control::PROGRAM,
        (FirstHeader::Ethernet, false) => control::PROGRAM_LINEAR,
        (FirstHeader::Ip, true) => control::PROGRAM_RAW,
        (FirstHeader::Ip, false) => control::PROGRAM_RAW_LINEAR,
    }
}

/// Pins the programs of an object that was loaded with these settings, the one for Ethernet last. Programs for interfaces
/// in shadow are loaded too, with the same maps, if the settings want them.
pub fn pin(object: &mut Ebpf, settings: &Settings, folder: &Path, pins: &dyn Fn(&str) -> PathBuf) -> Result<(), Error> {
    let pin = |object: &mut Ebpf, settings: &Settings, kind: Kind| {
        let program = program(object, settings, kind.first)?;
        if kind.is_shadow {
            program.load().tried("the kernel refused the program")?;
        }
        program.pin(folder.join(kind.file())).tried("cannot pin the program")
    };
    let (features, mut in_shadow) = (settings.features(), None);
    for kind in Kind::OTHERS.into_iter().filter(|kind| kind.is_in(features)) {
        if !kind.is_shadow {
            pin(object, settings, kind)?;
            continue;
        }
        let shadow = Settings { shadow: true, ..*settings };
        let other = match &mut in_shadow {
            Some(other) => other,
            None => in_shadow.insert(maps(&shadow, Some(pins))?),
        };
        pin(other, &shadow, kind)?;
    }
    pin(object, settings, Kind { first: FirstHeader::Ethernet, is_shadow: false })
}

#[cfg(test)]
mod tests {
    use ratelimit_common::{
        buckets::bucket::Bucket,
        identity::source::Source,
        maps::{control::Control, names},
        rules::ban::BanSet,
    };

    use super::definitions;

    #[test]
    fn the_object_defines_every_pinned_map() {
        let definitions = definitions().unwrap();
        let of = |name| *names::PINNED.iter().zip(&definitions).find(|(pinned, _)| **pinned == name).unwrap().1;
        assert_eq!(of(names::CONTROL).value_size as usize, size_of::<Control>());
        assert_eq!(of(names::CONTROL).max_entries, 1);
        assert_eq!(of(names::BUCKETS).key_size as usize, size_of::<Source>());
        assert_eq!(of(names::BUCKETS).value_size as usize, size_of::<Bucket>());
        assert_eq!(of(names::SOURCE_RULES).max_entries, names::SOURCE_RULES_MAX);
        assert_eq!(of(names::PREFIX_RULES).max_entries, names::PREFIX_RULES_MAX);
        assert_eq!(of(names::BANS).max_entries, names::BAN_SETS);
        assert_eq!(of(names::BANS).value_size as usize, size_of::<BanSet>());
        assert_eq!(of(names::BAN_FILTER).max_entries, names::BAN_GROUPS);
        assert_eq!(of(names::POLICIES).max_entries, names::POLICIES_MAX);
    }
}
