//! An instance whose bans are those of layout 12.

use std::{fs, path::Path};

use aya::{
    Ebpf,
    maps::{Array, HashMap, Map, MapData},
};
use ratelimit_common::{
    identity::source::Source,
    maps::{
        control::{Control, FEATURE_BANS},
        names,
    },
    rules::rule::Rule,
};

use crate::object::OBJECT;

/// Puts these bans in the place of the table among the pins, as layout 12 had them.
///
/// # Panics
///
/// If the instance is not there.
pub fn turn_into_layout_12(pins: &Path, bans: &[(Source, Rule)]) {
    let mut object = Ebpf::load(OBJECT).expect("cannot load the kernel side of the tests");
    let mut old = object.take_map("BANS_12").expect("the object has no such map");
    let mut map = HashMap::try_from(&mut old).expect("no hash map");
    for (source, ban) in bans {
        map.insert(*source, *ban, 0).expect("cannot write a ban");
    }
    for name in [names::BANS, names::BAN_FILTER] {
        fs::remove_file(pins.join(name)).expect("the instance has no such map");
    }
    old.pin(pins.join(names::BANS)).expect("cannot pin a map");
    let control = MapData::from_pin(pins.join(names::CONTROL)).expect("the instance has no control entry");
    let mut control: Array<_, Control> = Map::Array(control).try_into().expect("no array");
    let entry = control.get(&0, 0).expect("cannot read the control entry");
    let entry = Control { abi: 12, seal: 0, features: entry.features & !FEATURE_BANS, ..entry };
    control.set(0, entry, 0).expect("cannot write the control entry");
}
