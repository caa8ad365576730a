//! Waits for packets that the program is processing.

use std::{
    io,
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
};

use aya_obj::generated::{
    bpf_cmd,
    bpf_map_type::{self, BPF_MAP_TYPE_ARRAY, BPF_MAP_TYPE_ARRAY_OF_MAPS},
};

use crate::sys::bpf;

/// Part of `union bpf_attr` that writes one entry of a map. The generated type has no names for its parts.
#[repr(C)]
struct Update {
    map: u32,
    _padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// Waits until the program has processed every packet that it has begun. Later packets see all earlier writes.
///
/// The program runs in an RCU read section, and this call waits for a grace period. Kernels with `nohz_full` CPUs
/// refuse the first way, which needs one system call. The second way works on every kernel.
pub fn wait() {
    // SAFETY: the call takes numbers only.
    let outcome = unsafe { libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_GLOBAL, 0, 0) };
    if outcome != 0 {
        // This fails only without memory or descriptors. Then the time until the next system call has to suffice, since
        // a packet takes about a microsecond.
        let _ = wait_by_map();
    }
}

/// Replaces a map in an array of maps. The kernel then waits until no program uses the old one, by a grace period.
///
/// # Errors
///
/// Fails without memory, descriptors or CAP_BPF.
pub fn wait_by_map() -> io::Result<()> {
    let inner = create(BPF_MAP_TYPE_ARRAY, None)?;
    let outer = create(BPF_MAP_TYPE_ARRAY_OF_MAPS, Some(&inner))?;
    let (key, value) = (0u32, number(&inner));
    let mut update = Update {
        map: number(&outer),
        _padding: 0,
        key: (&raw const key) as u64,
        value: (&raw const value) as u64,
        flags: 0,
    };
    // SAFETY: the kernel reads one key and one value of four bytes, which outlive the call.
    unsafe { bpf::call(bpf_cmd::BPF_MAP_UPDATE_ELEM, &mut update) }.map(drop)
}

/// Creates an array of one entry of four bytes.
fn create(kind: bpf_map_type, inner: Option<&OwnedFd>) -> io::Result<OwnedFd> {
    // Type, sizes of keys and values, entries, flags, and the map that shows what entries are.
    let mut attributes = [kind as u32, 4, 4, 1, 0, inner.map_or(0, number)];
    // SAFETY: the attributes are numbers, which the kernel only reads.
    let fd = unsafe { bpf::call(bpf_cmd::BPF_MAP_CREATE, &mut attributes) }?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn number(fd: &OwnedFd) -> u32 {
    fd.as_raw_fd().cast_unsigned()
}
