//! A program that only writes one cache line of a large array for each packet.

use aya_ebpf::{
    bindings::xdp_action::XDP_DROP,
    btf_maps::Array,
    macros::{btf_map, xdp},
    programs::XdpContext,
};

use crate::{received::count_received, rewrite::at};

/// Lines of the array, as many as the product has cells by default.
const LINES: u32 = 1 << 17;
/// Offset of the IPv4 source in an untagged Ethernet frame.
const SOURCE_AT: u32 = 26;

/// 8 MB.
#[btf_map]
static ONE_LINE: Array<[u64; 8], { LINES as usize }> = Array::new();

/// Adds one to a line that the source selects, and drops the packet.
#[xdp]
fn one_line(ctx: XdpContext) -> u32 {
    count_received();
    touch(&ctx);
    XDP_DROP
}

/// Adds one to a line that the source selects.
#[inline(always)]
pub(crate) fn touch(ctx: &XdpContext) {
    let Some(source) = at::<u32>(ctx, SOURCE_AT) else { return };
    // SAFETY: `at` has checked that the bytes lie within the frame.
    let hash = u64::from(unsafe { source.read_unaligned() }).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let index = (hash >> 32) as u32 & (LINES - 1);
    if let Some(line) = ONE_LINE.get_ptr_mut(index) {
        let word: *mut u64 = line.cast();
        // SAFETY: the entry is valid. Two CPUs may lose a count, which nobody reads.
        unsafe { word.write_volatile(word.read_volatile() + 1) };
    }
}
