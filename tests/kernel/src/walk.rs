//! Runs another program on packets of many sources while the kernel repeats one packet.

use aya_ebpf::{
    bindings::xdp_action::XDP_ABORTED,
    btf_maps::{Array, ProgramArray},
    macros::{btf_map, xdp},
    programs::XdpContext,
};

use crate::{rewrite::set_source, scatter::spread};

/// Maximum number of sources in the table.
const MOST: usize = 1 << 20;

/// Map flag that permits the user side to map an array.
const MAPPABLE: usize = aya_ebpf::bindings::BPF_F_MMAPABLE as usize;

/// Packets so far, and the mask that gives the table index of a packet, or 0 if every packet has another source.
#[btf_map]
static WALK: Array<[u64; 2], 1> = Array::new();

/// The precomputed order of sources. Computing a source per packet would count as the limiter's time.
#[btf_map]
static TABLE: Array<[u32; MOST], 1, MAPPABLE> = Array::new();

/// The program that receives the packets.
#[btf_map]
static NEXT: ProgramArray<1> = ProgramArray::new();

/// Accepts frames of several buffers like the product, since the kernel requires that of all programs that call each
/// other.
#[xdp(frags)]
fn walk(ctx: XdpContext) -> u32 {
    let (Some(walk), Some(table)) = (WALK.get_ptr_mut(0), TABLE.get(0)) else { return XDP_ABORTED };
    // SAFETY: the entry is valid, and no other CPU runs this program meanwhile.
    let [number, mask] = unsafe { *walk };
    // SAFETY: as above.
    unsafe { (*walk)[0] = number + 1 };
    let source = if mask == 0 { spread(number as u32) } else { table[(number & mask) as usize & (MOST - 1)] };
    if set_source(&ctx, source).is_some() {
        // SAFETY: nothing here is to be dropped.
        unsafe { NEXT.tail_call(&ctx, 0) };
    }
    XDP_ABORTED
}
