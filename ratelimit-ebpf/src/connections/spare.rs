//! Decides whether a packet that would be refused belongs to a connection that this host has opened.

use aya_ebpf::{bindings::xdp_md, programs::XdpContext};
use ratelimit_common::{cells::own_connection::Remembered, maps::control::Control};

use crate::{
    bpf::{settings, verifier::given},
    connections::{
        budget::{self, FREE, Kind, SPENT},
        hash,
        read::{self, READ, UNREAD},
        socket,
        source::{self, Found},
    },
    maps::{own_connections as places, this_cpu},
    packet::context::Context,
    parse::connection::{Connection, IS_TCP},
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

// Results of the global functions.
const NOT_OWN: u32 = 0;
const OF_A_PEER: u32 = 1;
const OVER_RATE: u32 = 2;
const SPARED: u32 = 3;

/// Answers for a packet that would be refused. Writes into the context whether its source has own connections.
#[inline(always)]
#[must_use]
pub fn ask<const ETHERNET: bool, const FRAGS: bool>(
    ctx: &XdpContext,
    context: &mut Context,
    control: &Control,
) -> Answer {
    if !settings::spares_own() {
        return Answer::NotOwn;
    }
    let is_ethernet = u32::from(ETHERNET);
    let answer = match FRAGS {
        true => ask_of_several_buffers(ctx.ctx, context, control, is_ethernet),
        false => ask_of_one_buffer(ctx.ctx, context, control, is_ethernet),
    };
    context.is_peer = u32::from(answer != NOT_OWN);
    match answer {
        SPARED => Answer::Spared,
        OVER_RATE => Answer::OverRate,
        _ => Answer::NotOwn,
    }
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn ask_of_several_buffers(ctx: *mut xdp_md, context: *const Context, control: *const Control, is_ethernet: u32) -> u32 {
    let (Some(context), Some(control), true) = (given(context), given(control), settings::spares_own()) else {
        return NOT_OWN;
    };
    let place = match source::find(context, control) {
        Some(place) if place.may_look_up(context, control) => place,
        _ => return NOT_OWN,
    };
    let mut connection = Connection::new();
    let found = match read::first_buffer(ctx, &mut connection, is_ethernet != 0) {
        UNREAD => read::all_buffers(ctx, &mut connection, is_ethernet != 0),
        found => found,
    };
    decide(ctx, found == READ, &mut connection, &place, context, control)
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn ask_of_one_buffer(ctx: *mut xdp_md, context: *const Context, control: *const Control, is_ethernet: u32) -> u32 {
    let (Some(context), Some(control), true) = (given(context), given(control), settings::spares_own()) else {
        return NOT_OWN;
    };
    let place = match source::find(context, control) {
        Some(place) if place.may_look_up(context, control) => place,
        _ => return NOT_OWN,
    };
    let mut connection = Connection::new();
    let found = read::one_buffer(ctx, &mut connection, is_ethernet != 0);
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
    if !is_one || !is_own(ctx, connection, source, context.tick, control) {
        return if source.is_peer { OF_A_PEER } else { NOT_OWN };
    }
    source.mark(context.tick);
    if budget::is_within_rate(&source.peer.rate, control, context.tick) { SPARED } else { OVER_RATE }
}

/// Returns whether the connection is the host's own, as far as that is remembered or may be looked up.
#[inline(always)]
fn is_own(ctx: *mut xdp_md, connection: &mut Connection, source: &Found, now: u64, control: &Control) -> bool {
    let kind = Kind { is_peer: source.is_peer, is_tcp: connection.kind & IS_TCP != 0 };
    let mut taken = if source.is_peer { FREE } else { budget::take(&source.peer.look_ups, kind, control, now) };
    // A flood gets no further than this.
    if taken == SPENT {
        return false;
    }
    let hash = hash::of_connection(connection, control);
    let Some(place) = places::connection(hash) else { return false };
    let seen = Remembered(place.load());
    let is_known = seen.is(hash);
    if source.is_peer {
        if is_known && seen.is_valid(now) {
            return seen.is_own();
        }
        // Only own packets cause a look-up of a connection that is known to be own.
        if !is_known || !seen.is_own() {
            taken = budget::take(&source.peer.look_ups, kind, control, now);
        }
        if taken == SPENT {
            return false;
        }
    }
    this_cpu::count(|cpu| &cpu.own_looked_up);
    let is_own = socket::is_own(ctx, connection);
    if is_own || is_known || !seen.is_kept(now) {
        place.store(Remembered::new(hash, is_own, now).0);
    }
    if is_own && taken != FREE {
        budget::give_back(&source.peer.look_ups, taken, kind);
    }
    is_own
}
