//! An instance whose bans and filter of rules are those of layout 12.

use std::{fs, path::Path};

use aya::{
    Ebpf,
    maps::{Array, HashMap, Map, MapData},
};
use ratelimit_common::{
    identity::{filter::Filter, source::Source},
    maps::{
        control::{Budget, Control, FEATURE_BANS, FEATURE_OWN},
        names,
    },
    rules::rule::Rule,
};
use ratelimit_sandbox::OBJECT;

/// Words of the filter of rules, and how many of them layout 12 had.
const FILTER: [usize; 2] = [size_of::<Filter>() / size_of::<u64>(), 1 << 11];

/// Puts these bans in the place of the table among the pins, as layout 12 had them, and the filter of rules likewise.
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
    for name in [names::BANS, names::BAN_FILTER, names::FINE_FILTER] {
        fs::remove_file(pins.join(name)).expect("the instance has no such map");
    }
    old.pin(pins.join(names::BANS)).expect("cannot pin a map");
    let filter = MapData::from_pin(pins.join(names::RULE_FILTER)).expect("the instance has no filter of rules");
    let filter: Array<_, [u64; FILTER[0]]> = Map::Array(filter).try_into().expect("no array");
    let words = filter.get(&0, 0).expect("cannot read the filter of rules");
    let mut old = object.take_map("RULE_FILTER_12").expect("the object has no such map");
    let mut map: Array<_, [u64; FILTER[1]]> = Array::try_from(&mut old).expect("no array");
    map.set(0, *words.first_chunk().expect("the filter was smaller"), 0).expect("cannot write the filter of rules");
    fs::remove_file(pins.join(names::RULE_FILTER)).expect("the instance has no such map");
    old.pin(pins.join(names::RULE_FILTER)).expect("cannot pin a map");
    let control = MapData::from_pin(pins.join(names::CONTROL)).expect("the instance has no control entry");
    let mut control: Array<_, Control> = Map::Array(control).try_into().expect("no array");
    let entry = control.get(&0, 0).expect("cannot read the control entry");
    // Layout 12 had no list of lengths, and spared no own connections.
    let narrow_rules = u32::from(entry.narrow_rules != 0);
    let (features, own) = (entry.features & !FEATURE_BANS & !FEATURE_OWN, Budget::default());
    let entry = Control { abi: 12, seal: 0, features, own, narrow_rules, ..entry };
    control.set(0, entry, 0).expect("cannot write the control entry");
}
