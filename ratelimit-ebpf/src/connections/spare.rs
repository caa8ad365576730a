//! Decides whether a packet that would be refused belongs to a connection that this host has opened.

use aya_ebpf::{bindings::xdp_md, programs::XdpContext};
use ratelimit_common::{cells::own_connection::Remembered, maps::control::Control};

use crate::{
    bpf::{settings, verifier::given},
    connections::{
        budget::{self, FREE, Kind, SPENT},
        hash, peek,
        read::{self, READ},
        socket,
        source::Found,
    },
    maps::{own_connections as places, this_cpu},
    packet::context::{Context, NOT_OWN, OF_A_PEER},
    parse::connection::Connection,
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
    let kind = peek::peek_at_kind(ctx, context.transport().0);
    let Some(place) = peek::place(kind, context, control) else { return NOT_OWN };
    if let Some(answer) = peek::answer(kind, &place, context, control) {
        return answer;
    }
    let mut connection = Connection::new();
    let found = read::several_buffers(ctx, &mut connection, context.transport());
    decide(ctx, found == READ, &mut connection, &place, context, control)
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn ask_of_one_buffer(ctx: *mut xdp_md, context: *const Context, control: *const Control) -> u32 {
    let (Some(context), Some(control), true) = (given(context), given(control), settings::spares_own()) else {
        return NOT_OWN;
    };
    let kind = peek::peek_at_kind(ctx, context.transport().0);
    let Some(place) = peek::place(kind, context, control) else { return NOT_OWN };
    if let Some(answer) = peek::answer(kind, &place, context, control) {
        return answer;
    }
    let mut connection = Connection::new();
    let found = read::one_buffer(ctx, &mut connection, context.transport());
    decide(ctx, found == READ, &mut connection, &place, context, control)
}

/// Answers for a packet with this connection, if it is one.
#[inline(always)]
fn decide(
    ctx: *mut xdp_md,
    is_one: bool,
    connection: &mut Connection,
    source: &Found,
    context: &Context,
    control: &Control,
) -> u32 {
    let answer = if is_one { look_up(ctx, connection, source, context, control) } else { NOT_OWN };
    if answer != SPARED {
        return if source.is_peer { OF_A_PEER } else { answer };
    }
    source.mark(context.tick);
    if budget::is_within_rate(&source.peer.rate, control, context.tick) { SPARED } else { OVER_RATE }
}

/// Returns [`SPARED`] for an own connection, as far as that is remembered or may be looked up.
#[inline(always)]
fn look_up(ctx: *mut xdp_md, connection: &mut Connection, source: &Found, context: &Context, control: &Control) -> u32 {
    let now = context.tick;
    let kind = Kind::of(connection.kind, source.is_peer);
    let mut taken = if source.is_peer { FREE } else { budget::take(source.peer, kind, control, now) };
    // A flood gets no further than this, unless the answer decides about a ban.
    if taken == SPENT && !peek::may_ban(context) {
        return kind.unanswered();
    }
    let hash = hash::of_connection(connection, control);
    let Some(place) = places::connection(hash) else { return NOT_OWN };
    let seen = Remembered(place.load());
    let is_known = seen.is(hash);
    if (source.is_peer || taken == SPENT) && is_known && seen.is_valid(now) {
        return if seen.is_own() { SPARED } else { NOT_OWN };
    }
    // Only own packets cause a look-up of a connection that is known to be own.
    if source.is_peer && !(is_known && seen.is_own()) {
        taken = budget::take(source.peer, kind, control, now);
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
        budget::give_back(source.peer, taken, kind);
    }
    if is_own { SPARED } else { NOT_OWN }
}
