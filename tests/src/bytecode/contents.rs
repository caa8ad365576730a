//! What the maps of a program contain before the first packet, to restore it after the last one.

use std::{
    io,
    os::fd::{AsFd as _, AsRawFd as _},
};

use aya::{
    maps::{MapData, MapType},
    util::nr_cpus,
};

use super::mapped::Mapped;

/// The maps of a loaded program with their first contents.
pub(super) struct Contents(Vec<(MapData, First)>);

/// What a map contained first.
enum First {
    /// An array that this process can map. Without bytes, all are zero.
    Mapped(Option<Vec<u8>>),
    /// All values of another array.
    Array(Vec<u8>),
    /// No entry.
    Empty,
    /// No entry, in a map that forgets the least recently used ones.
    EmptyLru,
}

/// The part of entries that a map which forgets may have had. It is so small that what is free afterwards lies as in a
/// new map.
const MOST_USED: u32 = 64;

impl Contents {
    /// Reads what the maps with these ids contain.
    pub(super) fn of(ids: &[u32]) -> Self {
        let map = |id: &u32| {
            let map = MapData::from_id(*id).expect("cannot open a map again");
            let first = First::of(&map);
            (map, first)
        };
        Self(ids.iter().map(map).collect())
    }

    /// Restores all maps. Returns false if one cannot be as it was.
    pub(super) fn restore(&self) -> bool {
        self.0.iter().all(|(map, first)| first.restore(map))
    }
}

impl First {
    fn of(map: &MapData) -> Self {
        let info = map.info().expect("cannot read a map");
        match info.map_type().expect("unknown type of a map") {
            MapType::Array if info.map_flags() & BPF_F_MMAPABLE != 0 => {
                let bytes = Mapped::of(map).bytes();
                let is_zero = bytes == vec![0; bytes.len()];
                Self::Mapped((!is_zero).then_some(bytes))
            }
            MapType::Array | MapType::PerCpuArray => Self::Array(read(map)),
            kind @ (MapType::Hash | MapType::LpmTrie | MapType::LruHash) => {
                let mut key = vec![0; info.key_size() as usize];
                assert!(!first_key(map, &mut key), "{:?} is not empty", info.name_as_str());
                if kind == MapType::LruHash { Self::EmptyLru } else { Self::Empty }
            }
            kind => panic!("{:?}: a test cannot restore a map of the type {kind:?}", info.name_as_str()),
        }
    }

    fn restore(&self, map: &MapData) -> bool {
        match self {
            Self::Mapped(None) => Mapped::of(map).zero(),
            Self::Mapped(Some(bytes)) => Mapped::of(map).write(bytes),
            Self::Array(values) => write(map, values),
            Self::Empty => drop(clear(map)),
            Self::EmptyLru => {
                let entries = map.info().expect("cannot read a map").max_entries();
                return clear(map) <= entries / MOST_USED;
            }
        }
        true
    }
}

/// Removes all entries, and returns how many there were.
fn clear(map: &MapData) -> u32 {
    let mut key = vec![0; map.info().expect("cannot read a map").key_size() as usize];
    let (mut next, mut count) = (key.clone(), 0);
    let mut has_key = first_key(map, &mut key);
    while has_key {
        // Before its removal: the kernel would look for the first key again, in all places of the removed ones.
        has_key = next_key(map, Some(&key), &mut next);
        let mut attributes = [u64::from(descriptor(map)), key.as_ptr() as u64, 0, 0];
        bpf(BPF_MAP_DELETE_ELEM, &mut attributes).expect("cannot remove an entry");
        count += 1;
        key.copy_from_slice(&next);
    }
    assert!(!first_key(map, &mut key), "an entry is left");
    count
}

/// Finds the first key. Returns whether there is one.
fn first_key(map: &MapData, key: &mut [u8]) -> bool {
    next_key(map, None, key)
}

/// Finds the key after another one, or the first one. Returns whether there is one.
fn next_key(map: &MapData, after: Option<&[u8]>, key: &mut [u8]) -> bool {
    let after = after.map_or(0, |after| after.as_ptr() as u64);
    let mut attributes = [u64::from(descriptor(map)), after, key.as_mut_ptr() as u64, 0];
    match bpf(BPF_MAP_GET_NEXT_KEY, &mut attributes) {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => false,
        found => found.map(|()| true).expect("cannot list a map"),
    }
}

/// Returns all values of an array, one after the other.
fn read(map: &MapData) -> Vec<u8> {
    let (entries, size) = layout(map);
    let mut values = vec![0; entries as usize * size];
    batch(BPF_MAP_LOOKUP_BATCH, map, &mut (0..entries).collect::<Vec<_>>(), &mut values);
    values
}

/// Writes all values of an array.
fn write(map: &MapData, values: &[u8]) {
    let (entries, _) = layout(map);
    batch(BPF_MAP_UPDATE_BATCH, map, &mut (0..entries).collect::<Vec<_>>(), &mut values.to_vec());
}

/// Returns the number of values of an array, and the size of one, with those of all CPUs.
fn layout(map: &MapData) -> (u32, usize) {
    let info = map.info().expect("cannot read a map");
    let size = info.value_size() as usize;
    let is_per_cpu = info.map_type().is_ok_and(|kind| kind == MapType::PerCpuArray);
    let cpus = nr_cpus().expect("cannot read the number of CPUs");
    (info.max_entries(), if is_per_cpu { size.next_multiple_of(8) * cpus } else { size })
}

fn batch(command: libc::c_long, map: &MapData, keys: &mut [u32], values: &mut [u8]) {
    let mut position = 0_u64;
    let count_and_map = (keys.len() as u64) | u64::from(descriptor(map)) << 32;
    let (keys, values) = (keys.as_mut_ptr() as u64, values.as_mut_ptr() as u64);
    let mut attributes = [0, &raw mut position as u64, keys, values, count_and_map, 0, 0];
    match bpf(command, &mut attributes) {
        // The end of the map.
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
        outcome => outcome.expect("cannot read or write an array"),
    }
    assert_eq!(attributes[4], count_and_map, "not all entries were read or written");
}

fn descriptor(map: &MapData) -> u32 {
    map.fd().as_fd().as_raw_fd().cast_unsigned()
}

// Numbers from the kernel's include/uapi/linux/bpf.h.
const BPF_MAP_DELETE_ELEM: libc::c_long = 3;
const BPF_MAP_GET_NEXT_KEY: libc::c_long = 4;
const BPF_MAP_LOOKUP_BATCH: libc::c_long = 24;
const BPF_MAP_UPDATE_BATCH: libc::c_long = 26;
const BPF_F_MMAPABLE: u32 = 1 << 10;

/// Makes a BPF system call with these attributes, whose pointers are valid for what the command does.
fn bpf<const N: usize>(command: libc::c_long, attributes: &mut [u64; N]) -> io::Result<()> {
    // SAFETY: the attributes are as long as they say, and callers give pointers to memory as large as map and command need.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_mut_ptr(), size_of_val(attributes)) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
