//! Maps of another build's layout: keys and values as bytes, and the kernel's types of their fields.

use std::{
    io,
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
    path::Path,
};

use aya::{maps::MapType, util::nr_cpus};
use aya_obj::generated::{bpf_btf_info, bpf_cmd, bpf_map_info};

use crate::{
    Error,
    error::Tried as _,
    sys::bpf::{Batch, call, info_of, open_pin},
};

/// Entries that are read in the first call.
const STEP: usize = 256;

/// Part of `union bpf_attr` for one entry. The generated type has no names for its parts.
#[repr(C)]
#[derive(Default)]
struct Entry {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// A pinned map.
pub struct RawMap {
    fd: OwnedFd,
    info: bpf_map_info,
}

/// The types of a map: its BTF, and the numbers of the types of key and value.
pub struct Types {
    pub btf: Vec<u8>,
    pub key: u32,
    pub value: u32,
}

impl RawMap {
    /// Opens a pinned map.
    pub fn from_pin(path: &Path) -> Result<Self, Error> {
        let fd = open_pin(path).tried("cannot open a pinned map")?;
        let info = info_of(&fd, |_| {}).tried("cannot read what a map is")?;
        Ok(Self { fd, info })
    }

    /// Returns whether it has one of these types.
    pub fn is_one_of(&self, kinds: &[MapType]) -> bool {
        kinds.iter().any(|kind| *kind as u32 == self.info.type_)
    }

    /// Returns its type as a number.
    pub fn kind(&self) -> u32 {
        self.info.type_
    }

    /// Returns the bytes of a key and of a value.
    pub fn sizes(&self) -> [usize; 2] {
        [self.info.key_size as usize, self.info.value_size as usize]
    }

    /// Returns the most entries that it can have.
    pub fn entries(&self) -> u32 {
        self.info.max_entries
    }

    /// Returns whether each CPU has its own value. [`Self::get`] and [`Self::put`] handle them one after the other,
    /// each in whole words.
    pub fn is_per_cpu(&self) -> bool {
        use MapType::{LruPerCpuHash, PerCpuArray, PerCpuCgroupStorage, PerCpuHash};
        self.is_one_of(&[PerCpuHash, PerCpuArray, LruPerCpuHash, PerCpuCgroupStorage])
    }

    /// Returns its types. Needs CAP_SYS_ADMIN, and says so.
    pub fn types(&self) -> Result<Types, Error> {
        let bpf_map_info { btf_id, btf_key_type_id, btf_value_type_id, .. } = self.info;
        // SAFETY: the attributes are one id and two zeroes, which the kernel only reads.
        let fd = match unsafe { call(bpf_cmd::BPF_BTF_GET_FD_BY_ID, &mut [btf_id, 0, 0]) } {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(Error::ForeignTypes),
            outcome => outcome.tried("cannot read the types of a map")?,
        };
        // SAFETY: the kernel has just made this descriptor for us.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let info: bpf_btf_info = info_of(&fd, |_| {}).tried("cannot read the types of a map")?;
        let mut btf = vec![0; info.btf_size as usize];
        let fill = |ask: &mut bpf_btf_info| (ask.btf, ask.btf_size) = (btf.as_mut_ptr() as u64, info.btf_size);
        info_of(&fd, fill).tried("cannot read the types of a map")?;
        Ok(Types { btf, key: btf_key_type_id, value: btf_value_type_id })
    }

    /// Returns the key after this one, or the first. None after the last.
    fn next_key(&self, after: Option<&[u8]>) -> Result<Option<Vec<u8>>, Error> {
        let mut next = vec![0; self.info.key_size as usize];
        let key = after.map_or(0, |key| key.as_ptr() as u64);
        let mut entry = Entry { key, value: next.as_mut_ptr() as u64, ..self.entry() };
        // SAFETY: the kernel reads a key, if there is one, and writes a key.
        match unsafe { call(bpf_cmd::BPF_MAP_GET_NEXT_KEY, &mut entry) } {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            outcome => outcome.map(|_| Some(next)).tried("cannot read a map"),
        }
    }

    /// Calls `work` with each entry once. It reads hash maps in large steps (kernel 5.6), because their entries come
    /// and go.
    pub fn each(&self, mut work: impl FnMut(&[u8], &[u8]) -> Result<(), Error>) -> Result<(), Error> {
        if !self.is_one_of(&[MapType::Hash, MapType::LruHash]) {
            let mut key = self.next_key(None)?;
            while let Some(found) = key {
                if let Some(value) = self.get(&found)? {
                    work(&found, &value)?;
                }
                key = self.next_key(Some(&found))?;
            }
            return Ok(());
        }
        let ([key_size, value_size], mut room) = (self.sizes(), STEP);
        let mut position = None::<u32>;
        loop {
            let (mut keys, mut values) = (vec![0; key_size * room], vec![0; value_size * room]);
            let mut next = 0u32;
            let mut batch = Batch {
                position: position.as_ref().map_or(0, |position| std::ptr::from_ref(position) as u64),
                next_position: &raw mut next as u64,
                keys: keys.as_mut_ptr() as u64,
                values: values.as_mut_ptr() as u64,
                count: room as u32,
                map: self.fd.as_raw_fd().cast_unsigned(),
                ..Batch::default()
            };
            // SAFETY: there is room for so many keys and values, one position, and the count.
            let outcome = unsafe { call(bpf_cmd::BPF_MAP_LOOKUP_BATCH, &mut batch) };
            let is_last = match &outcome {
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => true,
                // A chain of the hash table has more entries.
                Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => {
                    room *= 2;
                    continue;
                }
                _ => outcome.map(|_| false).tried("cannot read a map")?,
            };
            let pairs = keys.chunks_exact(key_size).zip(values.chunks_exact(value_size));
            for (key, value) in pairs.take(room.min(batch.count as usize)) {
                work(key, value)?;
            }
            if is_last {
                return Ok(());
            }
            position = Some(next);
        }
    }

    /// Returns the value of a key. None if it has gone.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let mut value = vec![0; self.value_bytes()?];
        let mut entry = Entry { key: key.as_ptr() as u64, value: value.as_mut_ptr() as u64, ..self.entry() };
        // SAFETY: the kernel reads a key and writes a value, of each CPU where there is one.
        match unsafe { call(bpf_cmd::BPF_MAP_LOOKUP_ELEM, &mut entry) } {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            outcome => outcome.map(|_| Some(value)).tried("cannot read a map"),
        }
    }

    /// Writes the value of a key that has none.
    pub fn add(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        if self.get(key)?.is_some() { Ok(()) } else { self.put(key, value) }
    }

    /// Writes the value of a key.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        if key.len() != self.info.key_size as usize || value.len() != self.value_bytes()? {
            return Err(Error::Bpf { what: "cannot write to a map", detail: "an entry of another size".to_owned() });
        }
        let mut entry = Entry { key: key.as_ptr() as u64, value: value.as_ptr() as u64, ..self.entry() };
        // SAFETY: the kernel reads a key and a value of these sizes.
        unsafe { call(bpf_cmd::BPF_MAP_UPDATE_ELEM, &mut entry) }.map(drop).tried("cannot write to a map")
    }

    /// Returns the bytes of a value as the kernel transfers it.
    fn value_bytes(&self) -> Result<usize, Error> {
        let size = self.info.value_size as usize;
        if !self.is_per_cpu() {
            return Ok(size);
        }
        let cpus = nr_cpus().map_err(|(path, cause)| Error::Path { path: path.into(), cause })?;
        Ok(size.next_multiple_of(8) * cpus)
    }

    fn entry(&self) -> Entry {
        Entry { map: self.fd.as_raw_fd().cast_unsigned(), ..Entry::default() }
    }
}
