//! Counts received packets.

use aya_ebpf::{btf_maps::PerCpuArray, macros::btf_map};

/// Packets that the receiving programs have counted.
#[btf_map]
static RECEIVED: PerCpuArray<u64, 1> = PerCpuArray::new();

/// Counts one packet.
#[inline(always)]
pub(crate) fn count_received() {
    if let Some(received) = RECEIVED.get_ptr_mut(0) {
        // SAFETY: the entry is this CPU's own, and no other program on received packets interrupts this one.
        unsafe { *received += 1 };
    }
}
