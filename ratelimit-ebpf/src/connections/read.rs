//! Reads the connection of a packet, in functions of their own because of their stack.

use aya_ebpf::{bindings::xdp_md, programs::XdpContext};

use crate::{
    bpf::settings,
    packet::{first_buffer::FirstBuffer, frame::Packet, headers::Frame, scattered::Scattered},
    parse::{connection::Connection, outcome::Stop},
};

/// The packet has no connection that this host may have opened.
const NONE: u32 = 0;
/// The connection was read.
pub(super) const READ: u32 = 1;
/// The headers lie in other buffers.
pub(super) const UNREAD: u32 = 2;

/// Reads the connection from the first of several buffers.
#[inline(never)]
pub(super) fn first_buffer(ctx: *mut xdp_md, connection: &mut Connection, is_ethernet: bool) -> u32 {
    read(&FirstBuffer::of(&XdpContext::new(ctx)), connection, is_ethernet)
}

/// Reads the connection from any of several buffers.
#[inline(never)]
pub(super) fn all_buffers(ctx: *mut xdp_md, connection: &mut Connection, is_ethernet: bool) -> u32 {
    read(&Scattered::of(&XdpContext::new(ctx)), connection, is_ethernet)
}

/// Reads the connection from the only buffer.
#[inline(always)]
pub(super) fn one_buffer(ctx: *mut xdp_md, connection: &mut Connection, is_ethernet: bool) -> u32 {
    read_one_buffer(ctx, connection, u32::from(is_ethernet))
}

/// Global, because LLVM would pass the bounds of the packet in place of the context, as numbers of 32 bits.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn read_one_buffer(ctx: *mut xdp_md, connection: *mut Connection, is_ethernet: u32) -> u32 {
    if !settings::spares_own() {
        return NONE;
    }
    // SAFETY: the caller passes an exclusive reference, which the verifier takes for one that may be null.
    let Some(connection) = (unsafe { connection.as_mut() }) else { return NONE };
    read(&Packet::of(&XdpContext::new(ctx)), connection, is_ethernet != 0)
}

#[inline(always)]
fn read(frame: &impl Frame, connection: &mut Connection, is_ethernet: bool) -> u32 {
    match connection.read(frame, is_ethernet) {
        Ok(true) => READ,
        Err(Stop::Unread) => UNREAD,
        _ => NONE,
    }
}
