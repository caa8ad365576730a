//! Drops a flood as cheaply as XDP can, and passes the clients.

use aya_ebpf::{
    Global,
    bindings::xdp_action::{XDP_DROP, XDP_PASS},
    macros::xdp,
    programs::XdpContext,
};

use crate::{one_line, received::count_received, rewrite::at};

/// Offset of the IPv4 address that decides in an untagged Ethernet frame: that of the source or of the destination.
#[unsafe(no_mangle)]
static ADDRESS_AT: Global<u32> = Global::new(0);

/// Clients have this address in the bits of the mask, in the order of the host.
#[unsafe(no_mangle)]
static CLIENTS: Global<u32> = Global::new(0);
#[unsafe(no_mangle)]
static CLIENTS_MASK: Global<u32> = Global::new(0);

/// Passes frames of clients, or to clients. Counts and drops all others.
#[xdp]
fn only_clients(ctx: XdpContext) -> u32 {
    if is_of_clients(&ctx) {
        return XDP_PASS;
    }
    count_received();
    XDP_DROP
}

/// Passes frames of clients, or to clients. Touches one line for each other frame, and drops it.
#[xdp]
fn only_clients_one_line(ctx: XdpContext) -> u32 {
    if is_of_clients(&ctx) {
        return XDP_PASS;
    }
    count_received();
    one_line::touch(&ctx);
    XDP_DROP
}

/// Returns whether the address that decides is a client's.
#[inline(always)]
fn is_of_clients(ctx: &XdpContext) -> bool {
    let Some(address) = at::<[u8; 4]>(ctx, ADDRESS_AT.load()) else { return false };
    // SAFETY: `at` has checked that the bytes lie within the frame.
    let address = u32::from_be_bytes(unsafe { address.read_unaligned() });
    address & CLIENTS_MASK.load() == CLIENTS.load()
}
