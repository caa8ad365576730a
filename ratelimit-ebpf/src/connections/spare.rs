//! Decides whether a packet that would be refused belongs to a connection that this host has opened.
//!
//! What decides about most packets of a flood is read first: the local port, and whether a TCP packet opens a connection.

use aya_ebpf::{bindings::xdp_md, programs::XdpContext};
use ratelimit_common::{cells::own_connection::Remembered, maps::control::Control, reason::Reason};

use crate::{
    bpf::{settings, verifier::given},
    connections::{
        read::{self, READ},
        socket,
        source::{self, FREE, Kind, Place, SPENT},
    },
    maps::{own_connections as places, this_cpu},
    packet::{
        context::{Context, NOT_LOOKED_UP, NOT_OWN, OF_A_PEER, Transport},
        frame::Packet,
    },
    parse::{
        connection::{Connection, IS_TCP, kind_of},
        outcome::{ACK, FLAGS, SYN},
    },
};

/// The answer about a packet that would be refused.
#[derive(PartialEq)]
pub enum Answer {
    /// It is refused.
    NotOwn,
    /// It belongs to an own connection, whose rate is spent. It is refused without further consequences.
    OverRate,
    /// It belongs to an own connection, and passes.
    Spared,
}

// Further results of the global functions, besides those that a context knows.
const OVER_RATE: u32 = OF_A_PEER + 1;
const SPARED: u32 = OVER_RATE + 1;

/// Answers for a packet that would be refused. Writes into the context what is known of its connection.
#[inline(always)]
#[must_use]
pub fn ask<const FRAGS: bool>(ctx: &XdpContext, context: &mut Context, control: &Control) -> Answer {
    if !settings::spares_own() {
        return Answer::NotOwn;
    }
    let answer = match FRAGS {
        true => ask_of_several_buffers(ctx.ctx, context, control),
        false => ask_of_one_buffer(ctx.ctx, context, control),
    };
    context.note_own(answer);
    match answer {
        SPARED => Answer::Spared,
        OVER_RATE => Answer::OverRate,
        _ => Answer::NotOwn,
    }
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn ask_of_several_buffers(ctx: *mut xdp_md, context: *const Context, control: *const Control) -> u32 {
    let (Some(context), Some(control), true) = (given(context), given(control), settings::spares_own()) else {
        return NOT_OWN;
    };
    let kind = peek_at_kind(ctx, context.transport().0);
    let Some(place) = place_of(kind, context, control) else { return NOT_OWN };
    if let Some(answer) = answer_by_port(kind, &place, context, control) {
        return answer;
    }
    let mut connection = Connection::new();
    let found = read::several_buffers(ctx, &mut connection, context.transport());
    answer(ctx, found == READ, &mut connection, &place, context, control)
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn ask_of_one_buffer(ctx: *mut xdp_md, context: *const Context, control: *const Control) -> u32 {
    let (Some(context), Some(control), true) = (given(context), given(control), settings::spares_own()) else {
        return NOT_OWN;
    };
    let kind = peek_at_kind(ctx, context.transport().0);
    let Some(place) = place_of(kind, context, control) else { return NOT_OWN };
    if let Some(answer) = answer_by_port(kind, &place, context, control) {
        return answer;
    }
    let mut connection = Connection::new();
    let found = read::one_buffer(ctx, &mut connection, context.transport());
    answer(ctx, found == READ, &mut connection, &place, context, control)
}

/// Answers for a packet with this connection, if it is one.
#[inline(always)]
fn answer(
    ctx: *mut xdp_md,
    is_one: bool,
    connection: &mut Connection,
    of: &Place,
    context: &Context,
    control: &Control,
) -> u32 {
    let answer = if is_one { look_up(ctx, connection, of, context, control) } else { NOT_OWN };
    if answer != SPARED {
        return if of.is_peer { OF_A_PEER } else { answer };
    }
    of.mark(context.tick);
    if source::is_within_rate(&of.peer.rate, control, context.tick) { SPARED } else { OVER_RATE }
}

/// Returns [`SPARED`] for an own connection, as far as that is remembered or may be looked up.
#[inline(always)]
fn look_up(ctx: *mut xdp_md, connection: &mut Connection, of: &Place, context: &Context, control: &Control) -> u32 {
    let now = context.tick;
    let kind = Kind::of(connection.kind, of.is_peer);
    let mut taken = if of.is_peer { FREE } else { source::take_look_up(of.peer, kind, control, now) };
    // A flood gets no further than this, unless the answer decides about a ban.
    if taken == SPENT && !may_ban(context) {
        return kind.unanswered();
    }
    let hash = source::hash_of_connection(connection, control);
    let Some(place) = places::connection(hash) else { return NOT_OWN };
    let seen = Remembered(place.load());
    let is_known = seen.is(hash);
    if (of.is_peer || taken == SPENT) && is_known && seen.is_valid(now) {
        return if seen.is_own() { SPARED } else { NOT_OWN };
    }
    // Only own packets cause a look-up of a connection that is known to be own.
    if of.is_peer && !(is_known && seen.is_own()) {
        taken = source::take_look_up(of.peer, kind, control, now);
    }
    if taken == SPENT {
        return kind.unanswered();
    }
    this_cpu::count(|cpu| &cpu.own_looked_up);
    let is_own = socket::is_own(ctx, connection);
    if is_own || is_known || !seen.is_kept(now) {
        place.store(Remembered::new(hash, is_own, now).0);
    }
    if is_own && taken != FREE {
        source::give_look_up_back(of.peer, taken, kind);
    }
    if is_own { SPARED } else { NOT_OWN }
}

/// The packet has no connection that this host may have opened.
const NONE: u32 = u32::MAX;
/// The ports lie in another buffer.
const UNREAD: u32 = u32::MAX - 1;

/// Answers for most packets of a flood. Of others, the whole connection must be read.
#[inline(always)]
pub(super) fn answer_by_port(kind: u32, place: &Place, context: &Context, control: &Control) -> Option<u32> {
    if place.is_peer {
        return None;
    }
    if kind == NONE {
        return Some(NOT_OWN);
    }
    let is_spent = kind != UNREAD
        && !may_ban(context)
        && source::are_look_ups_spent(place.peer, Kind::of(kind, false), control, context.tick);
    is_spent.then_some(NOT_LOOKED_UP)
}

/// Returns what is remembered of a packet's source. None if nothing depends on it: no connection of this host can have
/// the packet, the source is not banned, and its refusal is not cached.
#[inline(always)]
pub(super) fn place_of(kind: u32, context: &Context, control: &Control) -> Option<Place> {
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
