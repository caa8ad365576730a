//! Reads what decides about most packets of a flood, without a parser: protocol and local port of IPv4 packets without tags
//! and options.

use aya_ebpf::{bindings::xdp_md, programs::XdpContext};
use network_types::eth::EtherType;
use ratelimit_common::{
    identity::service::{TCP, UDP},
    maps::control::Control,
    reason::Reason,
};

use crate::{
    bpf::settings,
    connections::{
        budget::{self, Kind},
        source::{self, Found},
    },
    packet::{
        context::{Context, NOT_LOOKED_UP, NOT_OWN},
        frame::Packet,
    },
    parse::{
        connection::{IS_TCP, kind_of},
        ports::{ACK, FLAGS, SYN},
    },
};

/// The packet has no connection that this host may have opened.
const NONE: u32 = u32::MAX;
/// Only the parser can tell.
const UNREAD: u32 = u32::MAX - 1;

const ETHERNET: usize = 14;
const IPV4: usize = 20;

/// Answers for most packets of a flood. Others must be parsed.
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
    settings::has_bans() && !context.reason.passes()
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
pub(crate) fn peek_at_kind(ctx: *mut xdp_md, is_ethernet: u32) -> u32 {
    if !settings::looks_up_sockets() {
        return NONE;
    }
    let packet = Packet::of(&XdpContext::new(ctx));
    let kind = if is_ethernet != 0 { peek::<ETHERNET>(&packet) } else { peek::<0>(&packet) };
    kind.unwrap_or(UNREAD)
}

/// Returns the same for a packet whose network header begins at `IP`. All offsets are constants, for the verifier.
#[inline(always)]
fn peek<const IP: usize>(packet: &Packet) -> Option<u32> {
    if IP == ETHERNET && u16::from_ne_bytes(*packet.header(ETHERNET - 2)?) != EtherType::Ipv4 as u16 {
        return None;
    }
    let header: &[u8; IPV4 + 4] = packet.header(IP)?;
    let [first, _, _, _, _, _, high, low, _, protocol, .., c, d] = *header;
    if first != 0x45 || high & 0x1f | low != 0 {
        return None;
    }
    if protocol == UDP {
        return Some(kind_of(0, [c, d]));
    }
    if protocol != TCP {
        return None;
    }
    let [flags] = *packet.header::<[u8; 1]>(IP + IPV4 + FLAGS)?;
    Some(if flags & (SYN | ACK) == SYN { NONE } else { kind_of(IS_TCP, [c, d]) })
}
