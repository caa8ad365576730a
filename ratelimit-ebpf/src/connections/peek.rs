//! Reads what decides about most packets of a flood: the local port, and whether a TCP packet opens a connection.

use aya_ebpf::{bindings::xdp_md, programs::XdpContext};
use ratelimit_common::{maps::control::Control, reason::Reason};

use crate::{
    bpf::settings,
    connections::{
        budget::{self, Kind},
        source::{self, Found},
    },
    packet::{
        context::{Context, NOT_LOOKED_UP, NOT_OWN, Transport},
        frame::Packet,
    },
    parse::{
        connection::{IS_TCP, kind_of},
        outcome::{ACK, FLAGS, SYN},
    },
};

/// The packet has no connection that this host may have opened.
const NONE: u32 = u32::MAX;
/// The ports lie in another buffer.
const UNREAD: u32 = u32::MAX - 1;

/// Answers for most packets of a flood. Of others, the whole connection must be read.
#[inline(always)]
pub(super) fn answer(kind: u32, source: &Found, context: &Context, control: &Control) -> Option<u32> {
    if source.is_peer {
        return None;
    }
    if kind == NONE {
        return Some(NOT_OWN);
    }
    let is_spent = kind != UNREAD
        && !may_ban(context)
        && budget::is_spent(source.peer, Kind::of(kind, false), control, context.tick);
    is_spent.then_some(NOT_LOOKED_UP)
}

/// Returns what is remembered of a packet's source. None if nothing depends on it: no connection of this host can have
/// the packet, the source is not banned, and its refusal is not cached.
#[inline(always)]
pub(super) fn place(kind: u32, context: &Context, control: &Control) -> Option<Found> {
    if kind == NONE && context.reason == Reason::NotAdmitted { None } else { source::find(context, control) }
}

/// Returns whether the refusal of a packet could ban its source.
#[inline(always)]
pub(super) fn may_ban(context: &Context) -> bool {
    settings::has_bans() && !context.reason.passes() && context.reason != Reason::NotAdmitted
}

/// Returns whether a packet may be one of an established TCP connection, or a first SYN where they get cookies.
#[inline(always)]
pub(crate) fn may_prove(kind: u32) -> bool {
    match kind {
        NONE => settings::proves_tcp(),
        kind => kind == UNREAD || kind & IS_TCP != 0,
    }
}

/// Returns the [kind](crate::parse::connection::Connection::kind) of a packet's connection without its family, [`NONE`]
/// or [`UNREAD`].
///
/// Global, because LLVM would pass the bounds of the packet in place of the context, as numbers of 32 bits.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
pub(crate) fn peek_at_kind(ctx: *mut xdp_md, transport: u32) -> u32 {
    let transport = Transport(transport);
    if !settings::looks_up_sockets() || transport.is_none() {
        return NONE;
    }
    peek(&Packet::of(&XdpContext::new(ctx)), transport).unwrap_or(UNREAD)
}

#[inline(always)]
fn peek(packet: &Packet, transport: Transport) -> Option<u32> {
    let [_, _, local @ ..] = *packet.header_behind::<[u8; 4]>(transport.begin())?;
    if !transport.is_tcp() {
        return Some(kind_of(0, local));
    }
    let [flags] = *packet.header_behind::<[u8; 1]>(transport.begin() + FLAGS)?;
    Some(if flags & (SYN | ACK) == SYN { NONE } else { kind_of(IS_TCP, local) })
}
