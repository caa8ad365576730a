//! The few BPF system calls that aya does not offer: on links, and reading many entries of a map at once.

use std::{
    ffi::CString,
    io,
    mem::MaybeUninit,
    os::{
        fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
    ptr,
};

use aya::Pod;

use crate::dataplane::{Error, error::Tried as _};

// Numbers from the kernel's include/uapi/linux/bpf.h.
const BPF_OBJ_GET: libc::c_long = 7;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_long = 15;
pub(crate) const BPF_MAP_LOOKUP_BATCH: libc::c_long = 24;
const BPF_MAP_UPDATE_BATCH: libc::c_long = 26;
const BPF_LINK_GET_FD_BY_ID: libc::c_long = 30;
const BPF_LINK_DETACH: libc::c_long = 34;
const BPF_LINK_TYPE_XDP: u32 = 6;

/// Start of `struct bpf_link_info` for an XDP link.
#[repr(C, align(8))]
#[derive(Default)]
struct LinkInfo {
    kind: u32,
    id: u32,
    program_id: u32,
    reserved: u32,
    interface: u32,
    /// Newer kernels may report more; it is not read.
    rest: [u32; 11],
}

/// `union bpf_attr` for `BPF_OBJ_GET_INFO_BY_FD`.
#[repr(C)]
struct InfoByFd {
    fd: u32,
    length: u32,
    info: u64,
}

/// A BPF link.
pub(crate) struct Link {
    fd: OwnedFd,
    /// The program on it.
    pub(crate) program_id: u32,
    /// Index of the interface of an XDP link; none for another kind of link, and where the interface was deleted.
    pub(crate) interface: Option<u32>,
}

impl Link {
    /// Opens a pinned link.
    pub(crate) fn from_pin(path: &Path) -> Result<Self, Error> {
        let name = CString::new(path.as_os_str().as_bytes()).tried("cannot open a pinned link")?;
        // SAFETY: the kernel reads the name, which outlives the call.
        let fd = unsafe { call(BPF_OBJ_GET, &mut [name.as_ptr() as u64, 0]) }.tried("cannot open a pinned link")?;
        Self::new(fd)
    }

    /// Opens a link by its id. Needs CAP_SYS_ADMIN.
    pub(crate) fn from_id(id: u32) -> Result<Self, Error> {
        // SAFETY: the attributes are one id and two zeroes, which the kernel only reads.
        let fd = unsafe { call(BPF_LINK_GET_FD_BY_ID, &mut [id, 0, 0]) }.tried("cannot open a link")?;
        Self::new(fd)
    }

    fn new(fd: i32) -> Result<Self, Error> {
        // SAFETY: the kernel has just made this descriptor for us.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let mut info = LinkInfo::default();
        let mut attributes =
            InfoByFd { fd: fd_number(&fd), length: size_of::<LinkInfo>() as u32, info: &raw mut info as u64 };
        // SAFETY: the kernel writes at most `length` bytes to `info`, which outlives the call.
        unsafe { call(BPF_OBJ_GET_INFO_BY_FD, &mut attributes) }.tried("cannot read a link")?;
        let interface = (info.kind == BPF_LINK_TYPE_XDP && info.interface != 0).then_some(info.interface);
        Ok(Self { fd, program_id: info.program_id, interface })
    }

    /// Detaches at once, whoever still holds the link. One whose interface was deleted is detached already.
    pub(crate) fn detach(&self) -> Result<(), Error> {
        if self.interface.is_some() {
            // SAFETY: the attribute is one descriptor, which the kernel only reads.
            unsafe { call(BPF_LINK_DETACH, &mut [fd_number(&self.fd)]) }.tried("cannot detach a link")?;
        }
        Ok(())
    }
}

/// `union bpf_attr` for `BPF_MAP_LOOKUP_BATCH` and `BPF_MAP_UPDATE_BATCH`.
#[repr(C)]
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) position: u64,
    pub(crate) next_position: u64,
    pub(crate) keys: u64,
    pub(crate) values: u64,
    pub(crate) count: u32,
    pub(crate) map: u32,
    pub(crate) element_flags: u64,
    pub(crate) flags: u64,
}

/// Entries that are read in one call at first.
const BATCH: usize = 256;

/// All entries of a hash map or an array (kernel 5.6). Those that come and go meanwhile may be missed, but none is there twice.
pub(crate) fn entries<K: Pod, V: Pod>(map: BorrowedFd<'_>) -> Result<Vec<(K, V)>, Error> {
    entries_by::<K, V, u32>(map)
}

/// All entries of a trie (kernel 5.13), which the program does not change.
pub(crate) fn trie_entries<K: Pod, V: Pod>(map: BorrowedFd<'_>) -> Result<Vec<(K, V)>, Error> {
    entries_by::<K, V, K>(map)
}

/// Hands all entries of a hash map to `visit`, one after the other, without keeping them. See [`entries`].
pub(crate) fn each<K: Pod, V: Pod>(map: BorrowedFd<'_>, visit: impl FnMut(K, V)) -> Result<(), Error> {
    each_by::<K, V, u32>(map, visit)
}

fn entries_by<K: Pod, V: Pod, P: Pod>(map: BorrowedFd<'_>) -> Result<Vec<(K, V)>, Error> {
    let mut all = Vec::new();
    each_by::<K, V, P>(map, |key, value| all.push((key, value)))?;
    Ok(all)
}

/// Visits all entries of a map of which the kernel remembers where it is by a `P`.
fn each_by<K: Pod, V: Pod, P: Pod>(map: BorrowedFd<'_>, mut visit: impl FnMut(K, V)) -> Result<(), Error> {
    let mut size = BATCH;
    let mut position: Option<P> = None;
    loop {
        let mut keys = Vec::<K>::with_capacity(size);
        let mut values = Vec::<V>::with_capacity(size);
        let mut next_position = MaybeUninit::<P>::zeroed();
        let mut attributes = Batch {
            position: position.as_ref().map_or(0, |position| ptr::from_ref(position) as u64),
            next_position: next_position.as_mut_ptr() as u64,
            keys: keys.as_mut_ptr() as u64,
            values: values.as_mut_ptr() as u64,
            count: size as u32,
            map: map.as_raw_fd().cast_unsigned(),
            ..Batch::default()
        };
        // SAFETY: the kernel writes at most `count` keys and values where there is room for them, one position, and the count.
        let outcome = unsafe { call(BPF_MAP_LOOKUP_BATCH, &mut attributes) };
        let is_last = match &outcome {
            Ok(_) => false,
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => true,
            // One chain of the hash table is longer than that.
            Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => {
                size *= 2;
                continue;
            }
            Err(_) => {
                outcome.tried("cannot read a map")?;
                return Ok(());
            }
        };
        let count = size.min(attributes.count as usize);
        // SAFETY: the kernel has written as many, and any bytes are a valid `Pod`.
        unsafe {
            keys.set_len(count);
            values.set_len(count);
        }
        keys.into_iter().zip(values).for_each(|(key, value)| visit(key, value));
        if is_last {
            return Ok(());
        }
        // SAFETY: any bytes are a valid `Pod`.
        position = Some(unsafe { next_position.assume_init() });
    }
}

/// Writes these entries (hash maps: kernel 5.6, tries: 5.13). Where that fails, those before may be written.
pub(crate) fn update<K: Pod, V: Pod>(map: BorrowedFd<'_>, keys: &[K], values: &[V]) -> Result<(), Error> {
    let mut attributes = Batch {
        keys: keys.as_ptr() as u64,
        values: values.as_ptr() as u64,
        count: keys.len().min(values.len()) as u32,
        map: map.as_raw_fd().cast_unsigned(),
        ..Batch::default()
    };
    if attributes.count != 0 {
        // SAFETY: the kernel reads `count` keys and values, which outlive the call, and writes the count.
        unsafe { call(BPF_MAP_UPDATE_BATCH, &mut attributes) }.tried("cannot write to a map")?;
    }
    Ok(())
}

fn fd_number(fd: &OwnedFd) -> u32 {
    fd.as_raw_fd().cast_unsigned()
}

/// # Safety
///
/// `attributes` must be what the command expects, with valid pointers in it.
pub(crate) unsafe fn call<T>(command: libc::c_long, attributes: &mut T) -> io::Result<i32> {
    // SAFETY: the pointer and the size belong together; the rest is the caller's promise.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attributes, size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}
