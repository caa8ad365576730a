//! Reads the connection of a packet, in functions of their own because of their stack.

use aya_ebpf::{bindings::xdp_md, programs::XdpContext};

use crate::{
    bpf::settings,
    packet::{
        context::Transport,
        frame::{FirstBuffer, Frame, Packet, Scattered},
    },
    parse::{
        connection::{Connection, Found},
        outcome::Stop,
    },
};

/// The packet has no connection.
const NONE: u32 = 0;
/// The connection was read.
pub(crate) const READ: u32 = 1;
/// The headers lie in other buffers.
const UNREAD: u32 = 2;
/// A first SYN was read.
pub(crate) const FIRST_SYN: u32 = 3;

/// Reads the connection of a frame that may have several buffers.
#[inline(always)]
pub(crate) fn several_buffers(ctx: *mut xdp_md, connection: &mut Connection, transport: Transport) -> u32 {
    match first_buffer(ctx, connection, transport) {
        UNREAD => all_buffers(ctx, connection, transport),
        found => found,
    }
}

/// Reads the connection from the first of several buffers.
#[inline(never)]
fn first_buffer(ctx: *mut xdp_md, connection: &mut Connection, transport: Transport) -> u32 {
    read(&FirstBuffer::of(&XdpContext::new(ctx)), connection, transport)
}

/// Reads the connection from any of several buffers.
#[inline(never)]
fn all_buffers(ctx: *mut xdp_md, connection: &mut Connection, transport: Transport) -> u32 {
    read(&Scattered::of(&XdpContext::new(ctx)), connection, transport)
}

/// Reads the connection from the only buffer.
#[inline(always)]
pub(crate) fn one_buffer(ctx: *mut xdp_md, connection: &mut Connection, transport: Transport) -> u32 {
    read_one_buffer(ctx, connection, transport.0)
}

/// Global, because LLVM would pass the bounds of the packet in place of the context, as numbers of 32 bits.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn read_one_buffer(ctx: *mut xdp_md, connection: *mut Connection, transport: u32) -> u32 {
    if !settings::looks_up_sockets() {
        return NONE;
    }
    // SAFETY: the caller passes an exclusive reference, which the verifier takes for one that may be null.
    let Some(connection) = (unsafe { connection.as_mut() }) else { return NONE };
    read(&Packet::of(&XdpContext::new(ctx)), connection, Transport(transport))
}

#[inline(always)]
fn read(frame: &impl Frame, connection: &mut Connection, transport: Transport) -> u32 {
    match connection.read(frame, transport) {
        Ok(Found::Connection) => READ,
        Ok(Found::FirstSyn) => FIRST_SYN,
        Err(Stop::Unread) => UNREAD,
        _ => NONE,
    }
}
