//! Loaded programs, which tests with the same settings use one after the other. Loading takes longer than most tests.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use aya::{
    Ebpf,
    maps::{Map, MapData},
    programs::XdpMode,
};
use ratelimit_common::maps::names;
use ratelimit_dataplane::{
    program::loader::{self, Settings},
    sys::{host, link_type::FirstHeader},
    tables::open::Tables,
};

use super::contents::Contents;
use crate::Namespace;

/// Programs that wait, and how many may. Each has some 40 MB of maps.
static WAITING: Mutex<VecDeque<(Settings, Loaded)>> = Mutex::new(VecDeque::new());
const MOST_WAITING: usize = 8;

/// A program and its maps, attached to no interface with traffic.
pub struct Loaded {
    pub(super) ebpf: Ebpf,
    /// The maps, to set rules and to read.
    pub tables: Tables,
    /// Only under an injected clock, which begins again for the next test.
    contents: Option<Contents>,
    _namespace: Namespace,
}

impl Loaded {
    /// Returns a program with these settings, as if it had just been loaded.
    pub(super) fn with(settings: &Settings) -> Self {
        let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
        let place = waiting.iter().position(|(of, _)| of == settings);
        let found = place.and_then(|place| waiting.remove(place));
        drop(waiting);
        let Some((_, mut loaded)) = found else { return Self::load(settings) };
        let mut control = loaded.tables.control().expect("cannot read the control map");
        control.created = host::now();
        loaded.tables.set_control(&control).expect("cannot write the control map");
        loaded
    }

    fn load(settings: &Settings) -> Self {
        let mut ebpf = loader::load(settings, None).expect("cannot load the program; run `cargo xtask test` as root");
        let maps: Vec<_> = ebpf.maps().filter_map(|(name, map)| changing(name, map)).collect();
        let tables = Tables::of(&mut ebpf, settings).expect("cannot prepare the maps");
        // Repeated runs of an attached program do not wait for the kernel's dispatcher. It is attached to the loopback
        // of a separate network namespace, which ends with it.
        let (namespace, _) = Namespace::pair();
        let program = loader::program(&mut ebpf, settings, FirstHeader::Ethernet).expect("the object has no program");
        namespace.run(|| program.attach("lo", XdpMode::Skb)).expect("cannot attach to the loopback interface");
        let contents = (settings.injected_clock && settings.log_level == 0).then(|| Contents::of(&maps));
        Self { ebpf, tables, contents, _namespace: namespace }
    }

    /// Leaves the program to the next test with these settings, if its maps can be as they were.
    pub(super) fn leave(self, settings: Settings) {
        if self.contents.as_ref().is_some_and(Contents::restore) {
            let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.push_back((settings, self));
            let oldest = if waiting.len() > MOST_WAITING { waiting.pop_front() } else { None };
            drop(waiting);
            // Without the lock, as the kernel takes its time to free maps.
            drop(oldest);
        }
    }
}

/// Returns the id of a map that packets or tests may change: not constants, and not the messages that are off.
fn changing(name: &str, map: &Map) -> Option<u32> {
    if name == names::MESSAGES || name.starts_with(".rodata") {
        return None;
    }
    let (Map::Array(data) | Map::PerCpuArray(data) | Map::HashMap(data) | Map::LruHashMap(data) | Map::LpmTrie(data)) =
        map
    else {
        panic!("{name}: no test restores a map of this type")
    };
    Some(MapData::info(data).expect("cannot read a map").id())
}
