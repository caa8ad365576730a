//! Tells when the next packets of a paced flood are due.

use aya_ebpf::{Global, btf_maps::Array, helpers::bpf_ktime_get_ns, macros::btf_map};

/// Nanoseconds between two packets; 0 sends without a pause.
#[unsafe(no_mangle)]
static INTERVAL: Global<u32> = Global::new(0);

/// Packets that are due together. Network cards also hand over packets in batches.
const BATCH: u64 = 64;

/// Nanoseconds of delay that later packets make up for. More would be a burst that no receiver holds.
const MOST_DELAY: u64 = 1_000_000;

/// The time at which the next batch is due, and how many packets of the last one are not sent yet.
#[btf_map]
static NEXT_BATCH: Array<[u64; 2], 1> = Array::new();

/// Returns whether a packet is due, which then counts as sent.
#[inline(always)]
pub(crate) fn is_due() -> bool {
    let interval = u64::from(INTERVAL.load());
    if interval == 0 {
        return true;
    }
    let Some(next) = NEXT_BATCH.get_ptr_mut(0) else { return false };
    // SAFETY: the entry is valid, and no other CPU runs this program meanwhile.
    let [at, rest] = unsafe { *next };
    if rest > 0 {
        // SAFETY: as above.
        unsafe { *next = [at, rest - 1] };
        return true;
    }
    // SAFETY: the helper takes no arguments.
    let now = unsafe { bpf_ktime_get_ns() };
    let at = at.max(now.saturating_sub(MOST_DELAY));
    let is_due = at <= now;
    if is_due {
        // SAFETY: as above.
        unsafe { *next = [at + interval * BATCH, BATCH - 1] };
    }
    is_due
}
