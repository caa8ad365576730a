//! Runs another program on packets of many sources, where the kernel repeats one packet.

use aya_ebpf::{
    bindings::xdp_action::XDP_ABORTED,
    btf_maps::{Array, ProgramArray},
    macros::{btf_map, xdp},
    programs::XdpContext,
};

use crate::{
    rewrite::set_source,
    scatter::{scattered, spread},
};

/// Packets so far; number of sources, or 0 if every packet has a source of its own; number of the first source; not 0 if sources come
/// in random order instead of one after the other.
type Walk = [u64; 4];

/// As the user side wants it next.
#[btf_map]
static WALK: Array<Walk, 1> = Array::new();

/// The program that gets the packets.
#[btf_map]
static NEXT: ProgramArray<1> = ProgramArray::new();

/// Takes frames of several buffers because the product does: the kernel asks that of all programs that call each other.
#[xdp(frags)]
fn walk(ctx: XdpContext) -> u32 {
    let Some(walk) = WALK.get_ptr_mut(0) else { return XDP_ABORTED };
    // SAFETY: the entry is valid, and no other CPU runs this program meanwhile.
    let [number, sources, first, random_order] = unsafe { *walk };
    // SAFETY: as above.
    unsafe { (*walk)[0] = number + 1 };
    let draw = if random_order == 0 { number } else { scattered(number) };
    let index = if sources == 0 { number } else { draw % sources };
    if set_source(&ctx, spread((first + index) as u32)).is_some() {
        // SAFETY: nothing here is to be dropped.
        unsafe { NEXT.tail_call(&ctx, 0) };
    }
    XDP_ABORTED
}
