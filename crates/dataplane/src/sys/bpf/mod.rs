//! BPF system calls that aya does not offer: on pins, and on many entries of a map at once.

pub mod link;
pub mod pinned_object;
pub mod raw;

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
use aya_obj::generated::{bpf_btf_info, bpf_cmd, bpf_link_info, bpf_map_info, bpf_prog_info};

use crate::{Error, error::Tried as _};

/// Part of `union bpf_attr` for batches. The generated type has no names for its parts.
#[repr(C)]
#[derive(Default)]
pub struct Batch {
    pub position: u64,
    pub next_position: u64,
    pub keys: u64,
    pub values: u64,
    pub count: u32,
    pub map: u32,
    pub element_flags: u64,
    pub flags: u64,
}

/// Entries that are read in one call at first.
pub const BATCH: usize = 256;

/// Returns all entries of a hash map or an array (kernel 5.6). Entries that come or go meanwhile may be missing. None
/// is there twice.
pub fn entries<K: Pod, V: Pod>(map: BorrowedFd<'_>) -> Result<Vec<(K, V)>, Error> {
    entries_by::<K, V, u32>(map)
}

/// Returns all entries of a large hash map, in calls for so many entries.
pub fn entries_in_steps<K: Pod, V: Pod>(map: BorrowedFd<'_>, step: usize) -> Result<Vec<(K, V)>, Error> {
    let mut all = Vec::new();
    each_by::<K, V, u32>(map, step, None, |_, _| true, |key, value| all.push((key, value)))?;
    Ok(all)
}

/// Returns all values of an array with so many entries, in one call (kernel 5.6).
pub fn array<V: Pod>(map: BorrowedFd<'_>, entries: u32) -> Result<Vec<V>, Error> {
    let mut values = Vec::with_capacity(entries as usize);
    // With room for one more entry, the kernel says in the same call that there is none.
    each_by::<u32, V, u32>(map, entries as usize + 1, None, |_, _| true, |_, value| values.push(value))?;
    Ok(values)
}

/// Returns all entries of a trie (kernel 5.13). The program does not change tries.
pub fn trie_entries<K: Pod, V: Pod>(map: BorrowedFd<'_>) -> Result<Vec<(K, V)>, Error> {
    entries_by::<K, V, K>(map)
}

/// Calls `visit` with each entry of a hash map, and does not keep them. As in [`entries`], some may be missing.
pub fn each<K: Pod, V: Pod>(map: BorrowedFd<'_>, visit: impl FnMut(K, V)) -> Result<(), Error> {
    each_by::<K, V, u32>(map, BATCH, None, |_, _| true, visit).map(drop)
}

/// Does the same from a chain of the hash table on, as long as `goes_on` agrees to the next chain. Returns whether it
/// has read the last chain.
pub fn each_from<K: Pod, V: Pod>(
    map: BorrowedFd<'_>,
    chain: u32,
    mut goes_on: impl FnMut(u32) -> bool,
    visit: impl FnMut(K, V),
) -> Result<bool, Error> {
    each_by::<K, V, u32>(map, BATCH, Some(chain), |_, next| goes_on(*next), visit)
}

/// Returns all entries of a hash map or a trie if there are at most `most`, and none otherwise. The kernel's position in
/// it is a `P`: `u32` for a hash map, the key for a trie.
pub fn few<K: Pod, V: Pod, P: Pod>(map: BorrowedFd<'_>, most: usize) -> Result<Option<Vec<(K, V)>>, Error> {
    let mut all = Vec::new();
    let is_complete =
        each_by::<K, V, P>(map, BATCH, None, |seen, _| seen <= most, |key, value| all.push((key, value)))?;
    Ok((is_complete && all.len() <= most).then_some(all))
}

/// Calls `visit` with each entry of a hash map or a trie, as long as `goes_on` agrees. Returns whether it has read all. The
/// kernel's position is that of [`few`].
pub fn each_while<K: Pod, V: Pod, P: Pod>(
    map: BorrowedFd<'_>,
    mut goes_on: impl FnMut() -> bool,
    visit: impl FnMut(K, V),
) -> Result<bool, Error> {
    each_by::<K, V, P>(map, BATCH, None, |_, _| goes_on(), visit)
}

fn entries_by<K: Pod, V: Pod, P: Pod>(map: BorrowedFd<'_>) -> Result<Vec<(K, V)>, Error> {
    let mut all = Vec::new();
    each_by::<K, V, P>(map, BATCH, None, |_, _| true, |key, value| all.push((key, value)))?;
    Ok(all)
}

/// Calls `visit` with each entry of a map from a position on, as long as `goes_on` agrees to the number of entries so far
/// and the next position. Returns whether the last entry was read. The kernel's position is a `P`. Each call reads `size`
/// entries, or more if it must.
fn each_by<K: Pod, V: Pod, P: Pod>(
    map: BorrowedFd<'_>,
    mut size: usize,
    mut position: Option<P>,
    mut goes_on: impl FnMut(usize, &P) -> bool,
    mut visit: impl FnMut(K, V),
) -> Result<bool, Error> {
    let mut seen = 0;
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
        // SAFETY: the kernel writes at most `count` keys and values where there is room for them, one position, and the
        // count.
        let outcome = unsafe { call(bpf_cmd::BPF_MAP_LOOKUP_BATCH, &mut attributes) };
        let is_last = match &outcome {
            Ok(_) => false,
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => true,
            // A chain of the hash table has more entries.
            Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => {
                size *= 2;
                continue;
            }
            Err(_) => {
                outcome.tried("cannot read a map")?;
                return Ok(true);
            }
        };
        let count = size.min(attributes.count as usize);
        // SAFETY: the kernel has written as many, and any bytes are a valid `Pod`.
        unsafe {
            keys.set_len(count);
            values.set_len(count);
        }
        keys.into_iter().zip(values).for_each(|(key, value)| visit(key, value));
        seen += count;
        if is_last {
            return Ok(true);
        }
        // SAFETY: any bytes are a valid `Pod`.
        let next = unsafe { next_position.assume_init() };
        if !goes_on(seen, &next) {
            return Ok(false);
        }
        position = Some(next);
    }
}

/// Writes these entries (hash maps: kernel 5.6, tries: 5.13). After a failure, some may be written.
pub fn update<K: Pod, V: Pod>(map: BorrowedFd<'_>, keys: &[K], values: &[V]) -> io::Result<()> {
    let mut attributes = Batch {
        keys: keys.as_ptr() as u64,
        values: values.as_ptr() as u64,
        count: keys.len().min(values.len()) as u32,
        map: map.as_raw_fd().cast_unsigned(),
        ..Batch::default()
    };
    if attributes.count != 0 {
        // SAFETY: the kernel reads `count` keys and values, which outlive the call, and writes the count.
        unsafe { call(bpf_cmd::BPF_MAP_UPDATE_BATCH, &mut attributes) }?;
    }
    Ok(())
}

/// Removes the entries with these keys, which are there (hash maps: kernel 5.6, tries: 5.13). After a failure, some may
/// be removed.
pub fn delete<K: Pod>(map: BorrowedFd<'_>, keys: &[K]) -> io::Result<()> {
    let mut attributes = Batch {
        keys: keys.as_ptr() as u64,
        count: keys.len() as u32,
        map: map.as_raw_fd().cast_unsigned(),
        ..Batch::default()
    };
    if attributes.count != 0 {
        // SAFETY: the kernel reads `count` keys, which outlive the call, and writes the count.
        unsafe { call(bpf_cmd::BPF_MAP_DELETE_BATCH, &mut attributes) }?;
    }
    Ok(())
}

/// Opens what is pinned under a name.
pub fn open_pin(pin: &Path) -> io::Result<OwnedFd> {
    let name = CString::new(pin.as_os_str().as_bytes())?;
    // SAFETY: the kernel reads the name, which outlives the call.
    let fd = unsafe { call(bpf_cmd::BPF_OBJ_GET, &mut [name.as_ptr() as u64, 0]) }?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Pins a map, a program or a link.
pub fn pin(object: BorrowedFd<'_>, pin: &Path) -> io::Result<()> {
    let name = CString::new(pin.as_os_str().as_bytes())?;
    let mut attributes = [name.as_ptr() as u64, u64::from(object.as_raw_fd().cast_unsigned())];
    // SAFETY: the kernel reads the name, which outlives the call.
    unsafe { call(bpf_cmd::BPF_OBJ_PIN, &mut attributes) }.map(drop)
}

/// Makes a program hold a map, also if it does not use it (kernel 5.10).
pub fn bind_map(program: BorrowedFd<'_>, map: BorrowedFd<'_>) -> io::Result<()> {
    let mut attributes = [program, map].map(|fd| fd.as_raw_fd().cast_unsigned());
    // SAFETY: the attributes are numbers, which the kernel only reads. It takes the missing flags as 0.
    unsafe { call(bpf_cmd::BPF_PROG_BIND_MAP, &mut attributes) }.map(drop)
}

/// A structure for the kernel's description of a descriptor.
///
/// # Safety
///
/// It has numbers only, for which all bytes are valid.
pub unsafe trait Info {}

// SAFETY: see `linux/bpf.h`.
unsafe impl Info for bpf_prog_info {}
// SAFETY: as above.
unsafe impl Info for bpf_map_info {}
// SAFETY: as above.
unsafe impl Info for bpf_link_info {}
// SAFETY: as above.
unsafe impl Info for bpf_btf_info {}

/// Reads the kernel's description of a descriptor. `ask` names the buffers for it, which must be valid.
///
/// The kernel refuses bytes that it does not know unless they are zero, also those between and after the fields. A copy of
/// the structure need not keep them, so it is filled where it lies.
pub fn info_of<T: Info>(fd: &OwnedFd, ask: impl FnOnce(&mut T)) -> io::Result<T> {
    /// Part of `union bpf_attr`. The generated type has no names for its parts.
    #[repr(C)]
    struct InfoByFd {
        fd: u32,
        length: u32,
        info: u64,
    }
    let mut space = MaybeUninit::<T>::uninit();
    // SAFETY: all bytes belong to `space`, and zeroes are valid numbers.
    let info = unsafe {
        space.as_mut_ptr().write_bytes(0, 1);
        space.assume_init_mut()
    };
    ask(info);
    let mut attributes =
        InfoByFd { fd: fd.as_raw_fd().cast_unsigned(), length: size_of::<T>() as u32, info: &raw mut *info as u64 };
    // SAFETY: the kernel writes at most `length` bytes to `info`, and to a buffer of the size that it names.
    unsafe { call(bpf_cmd::BPF_OBJ_GET_INFO_BY_FD, &mut attributes) }?;
    // SAFETY: it was filled above.
    Ok(unsafe { space.assume_init() })
}

/// # Safety
///
/// `attributes` must be what the command expects, with valid pointers in it.
pub unsafe fn call<T>(command: bpf_cmd, attributes: &mut T) -> io::Result<i32> {
    // SAFETY: the pointer and the size belong together; the rest is the caller's promise.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command as libc::c_long, &raw mut *attributes, size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}
