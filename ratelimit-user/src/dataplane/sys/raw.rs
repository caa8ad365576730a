//! Maps whose layout another build has made: keys and values as bytes, and what the kernel knows of their fields.

use std::{
    ffi::CString,
    io,
    os::{
        fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
};

use aya::util::nr_cpus;

use crate::dataplane::{
    Error,
    error::Tried as _,
    sys::bpf::{BPF_MAP_LOOKUP_BATCH, Batch, call},
};

// Numbers from the kernel's include/uapi/linux/bpf.h.
const BPF_MAP_LOOKUP_ELEM: libc::c_long = 1;
const BPF_MAP_UPDATE_ELEM: libc::c_long = 2;
const BPF_MAP_GET_NEXT_KEY: libc::c_long = 4;
const BPF_OBJ_GET: libc::c_long = 7;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_long = 15;
const BPF_BTF_GET_FD_BY_ID: libc::c_long = 19;
const PER_CPU: [u32; 4] = [5, 6, 10, 21];
/// BPF_MAP_TYPE_HASH and BPF_MAP_TYPE_LRU_HASH.
const HASHES: [u32; 2] = [1, 9];

/// Entries that are read in one call at first.
const STEP: usize = 256;

/// Start of `struct bpf_map_info`.
#[repr(C, align(8))]
#[derive(Default)]
struct MapInfo {
    kind: u32,
    id: u32,
    key_size: u32,
    value_size: u32,
    entries: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    kernel_type: u32,
    namespace: [u64; 2],
    btf: u32,
    key_type: u32,
    value_type: u32,
    /// Newer kernels may report more; it is not read.
    rest: [u32; 9],
}

/// `struct bpf_btf_info`.
#[repr(C)]
#[derive(Default)]
struct BtfInfo {
    types: u64,
    size: u32,
    id: u32,
    name: u64,
    name_length: u32,
    is_of_kernel: u32,
}

/// Start of `union bpf_attr` for one entry of a map.
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
pub(crate) struct RawMap {
    fd: OwnedFd,
    info: MapInfo,
}

/// What the kernel knows of a map's types: its BTF, and which of its types are key and value.
pub(crate) struct Types {
    pub(crate) btf: Vec<u8>,
    pub(crate) key: u32,
    pub(crate) value: u32,
}

impl RawMap {
    /// Opens a pinned map.
    pub(crate) fn from_pin(path: &Path) -> Result<Self, Error> {
        let name = CString::new(path.as_os_str().as_bytes()).tried("cannot open a pinned map")?;
        // SAFETY: the kernel reads the name, which outlives the call.
        let fd = unsafe { call(BPF_OBJ_GET, &mut [name.as_ptr() as u64, 0]) }.tried("cannot open a pinned map")?;
        // SAFETY: the kernel has just made this descriptor for us.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let mut info = MapInfo::default();
        info_of(&fd, &mut info).tried("cannot read what a map is")?;
        Ok(Self { fd, info })
    }

    /// Its type, as the kernel numbers them.
    pub(crate) fn kind(&self) -> u32 {
        self.info.kind
    }

    /// Bytes of a key and of a value.
    pub(crate) fn sizes(&self) -> [usize; 2] {
        [self.info.key_size as usize, self.info.value_size as usize]
    }

    /// Most entries.
    pub(crate) fn entries(&self) -> u32 {
        self.info.entries
    }

    /// Whether each CPU has a value of its own. [`Self::get`] and [`Self::put`] have them one after the other, each in whole words.
    pub(crate) fn is_per_cpu(&self) -> bool {
        PER_CPU.contains(&self.info.kind)
    }

    /// Its types. Needs CAP_SYS_ADMIN, and says so.
    pub(crate) fn types(&self) -> Result<Types, Error> {
        let MapInfo { btf, key_type, value_type, .. } = self.info;
        // SAFETY: the attributes are one id and two zeroes, which the kernel only reads.
        let fd = match unsafe { call(BPF_BTF_GET_FD_BY_ID, &mut [btf, 0, 0]) } {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(Error::ForeignTypes),
            outcome => outcome.tried("cannot read the types of a map")?,
        };
        // SAFETY: the kernel has just made this descriptor for us.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let mut info = BtfInfo::default();
        info_of(&fd, &mut info).tried("cannot read the types of a map")?;
        let mut types = vec![0; info.size as usize];
        info = BtfInfo { types: types.as_mut_ptr() as u64, size: info.size, ..BtfInfo::default() };
        info_of(&fd, &mut info).tried("cannot read the types of a map")?;
        Ok(Types { btf: types, key: key_type, value: value_type })
    }

    /// The key after this one, or the first. None after the last.
    fn next_key(&self, after: Option<&[u8]>) -> Result<Option<Vec<u8>>, Error> {
        let mut next = vec![0; self.info.key_size as usize];
        let key = after.map_or(0, |key| key.as_ptr() as u64);
        let mut entry = Entry { key, value: next.as_mut_ptr() as u64, ..self.entry() };
        // SAFETY: the kernel reads a key, if there is one, and writes a key.
        match unsafe { call(BPF_MAP_GET_NEXT_KEY, &mut entry) } {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            outcome => outcome.map(|_| Some(next)).tried("cannot read a map"),
        }
    }

    /// All entries, each once: of hash maps in large steps (kernel 5.6), since their entries come and go.
    pub(crate) fn each(&self, mut work: impl FnMut(&[u8], &[u8]) -> Result<(), Error>) -> Result<(), Error> {
        if !HASHES.contains(&self.info.kind) {
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
            let outcome = unsafe { call(BPF_MAP_LOOKUP_BATCH, &mut batch) };
            let is_last = match &outcome {
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => true,
                // One chain of the hash table is longer than that.
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

    /// The value of a key; none if it has gone meanwhile.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let mut value = vec![0; self.value_bytes()?];
        let mut entry = Entry { key: key.as_ptr() as u64, value: value.as_mut_ptr() as u64, ..self.entry() };
        // SAFETY: the kernel reads a key and writes a value, of each CPU where there is one.
        match unsafe { call(BPF_MAP_LOOKUP_ELEM, &mut entry) } {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            outcome => outcome.map(|_| Some(value)).tried("cannot read a map"),
        }
    }

    /// Writes the value of a key where there is none.
    pub(crate) fn add(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        if self.get(key)?.is_some() { Ok(()) } else { self.put(key, value) }
    }

    /// Writes the value of a key.
    pub(crate) fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        if key.len() != self.info.key_size as usize || value.len() != self.value_bytes()? {
            return Err(Error::Bpf { what: "cannot write to a map", detail: "an entry of another size".to_owned() });
        }
        let mut entry = Entry { key: key.as_ptr() as u64, value: value.as_ptr() as u64, ..self.entry() };
        // SAFETY: the kernel reads a key and a value of these sizes.
        unsafe { call(BPF_MAP_UPDATE_ELEM, &mut entry) }.map(drop).tried("cannot write to a map")
    }

    /// Bytes of a value as the kernel hands them over.
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

/// Has the kernel describe what a descriptor is.
fn info_of<T>(fd: &OwnedFd, info: &mut T) -> io::Result<()> {
    #[repr(C)]
    struct InfoByFd {
        fd: u32,
        length: u32,
        info: u64,
    }
    let mut attributes =
        InfoByFd { fd: fd.as_raw_fd().cast_unsigned(), length: size_of::<T>() as u32, info: &raw mut *info as u64 };
    // SAFETY: the kernel writes at most `length` bytes to `info`, and to a buffer of the size that it names.
    unsafe { call(BPF_OBJ_GET_INFO_BY_FD, &mut attributes) }.map(drop)
}
