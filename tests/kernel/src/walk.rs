//! Runs another program on packets of many sources, where the kernel repeats one packet.

use aya_ebpf::{
    bindings::xdp_action::XDP_ABORTED,
    btf_maps::{Array, ProgramArray},
    macros::{btf_map, xdp},
    programs::XdpContext,
};

use crate::{rewrite::set_source, scatter::spread};

/// Most sources in the table.
const MOST: usize = 1 << 20;

/// Makes an array one that the user side can map.
const MAPPABLE: usize = aya_ebpf::bindings::BPF_F_MMAPABLE as usize;

/// Packets so far; what of that number finds a source in the table, or 0 if every packet has a source of its own.
#[btf_map]
static WALK: Array<[u64; 2], 1> = Array::new();

/// The sources in their order, worked out before: a packet must not wait for its source, which would be taken for the limiter's time.
#[btf_map]
static TABLE: Array<[u32; MOST], 1, MAPPABLE> = Array::new();

/// The program that gets the packets.
#[btf_map]
static NEXT: ProgramArray<1> = ProgramArray::new();

/// Takes frames of several buffers because the product does: the kernel asks that of all programs that call each other.
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
