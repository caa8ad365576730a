//! Decides whether a packet of an unknown source proves its address, within the budgets of look-ups and of SYN cookies.

use aya_ebpf::{bindings::xdp_md, programs::XdpContext};
use ratelimit_common::{
    limits::limit::SECOND,
    meters::gcra::{self, Units},
};

use crate::{
    bpf::{clock::Clock, settings, verifier::given},
    cells::{proven_sources, unknown_rate},
    connections::{
        read::{self, FIRST_SYN, READ},
        socket::{self, LISTEN},
        spare,
    },
    maps::{
        control,
        exchange::{FEW_TRIES, exchange},
        shared, this_cpu,
    },
    meters::budget,
    packet::{
        context::{Context, Transport},
        frame,
    },
    parse::connection::{Connection, IS_TCP},
    proofs::{cookie, forwarded},
    reply::syn_ack,
};

/// What a packet says about its source.
#[derive(PartialEq)]
#[repr(u32)]
pub enum Proof {
    /// Nothing.
    Nothing,
    /// It proves its source, which is known from then on.
    Proven,
    /// It is a first SYN to this host. If the limits of its source admit it, [`answers`] must follow.
    FirstSyn,
    /// It is a first SYN that gets no answer.
    Refused,
}

/// Asks what a packet says about its unknown source, where their rate is spent.
#[inline(always)]
#[must_use]
pub fn ask<const FRAGS: bool>(ctx: &XdpContext, context: &Context) -> Proof {
    match FRAGS {
        true => ask_several_buffers(ctx.ctx, context),
        false => ask_one_buffer(ctx.ctx, context),
    }
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn ask_several_buffers(ctx: *mut xdp_md, context: *const Context) -> Proof {
    let (Some(context), true) = (given(context), settings::limits_unknown()) else { return Proof::Nothing };
    if !spare::may_prove(spare::peek_at_kind(ctx, context.transport().0)) {
        return Proof::Nothing;
    }
    let mut connection = Connection::new();
    match read::several_buffers(ctx, &mut connection, context.transport()) {
        READ => prove(ctx, &connection, context),
        FIRST_SYN if settings::proves_tcp() && context.transport().network() != 0 => {
            may_answer(ctx, &connection, context)
        }
        _ => Proof::Nothing,
    }
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn ask_one_buffer(ctx: *mut xdp_md, context: *const Context) -> Proof {
    let (Some(context), true) = (given(context), settings::limits_unknown()) else { return Proof::Nothing };
    if !spare::may_prove(spare::peek_at_kind(ctx, context.transport().0)) {
        return Proof::Nothing;
    }
    let mut connection = Connection::new();
    match read::one_buffer(ctx, &mut connection, context.transport()) {
        READ => prove(ctx, &connection, context),
        FIRST_SYN if settings::proves_tcp() && context.transport().network() != 0 => {
            may_answer(ctx, &connection, context)
        }
        _ => Proof::Nothing,
    }
}

/// Remembers the source if the socket of its connection proves it.
#[inline(always)]
fn prove(ctx: *mut xdp_md, connection: &Connection, context: &Context) -> Proof {
    let is_tcp = connection.kind & IS_TCP != 0;
    if !is_tcp || !take_proof(context.tick) || find_proof(ctx, connection) == Proof::Nothing {
        return Proof::Nothing;
    }
    proven_sources::remember(context.hash, context.tick);
    Proof::Proven
}

/// Looks for a socket of the connection whose peer has answered, or for a listener whose cookie the packet acknowledges.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn find_proof(ctx: *mut xdp_md, connection: *const Connection) -> Proof {
    let (Some(connection), true) = (given(connection), settings::limits_unknown()) else { return Proof::Nothing };
    let socket = socket::look_up_tcp(ctx, connection);
    if socket.is_null() {
        return Proof::Nothing;
    }
    let state = socket::state(socket);
    let is_connected = socket::is_proof(state);
    let has_cookie = settings::proves_tcp() && state == LISTEN && cookie::is_good(ctx, socket, connection);
    socket::release(socket);
    if is_connected {
        this_cpu::count(|cpu| &cpu.proven_by_connection);
    } else if has_cookie {
        this_cpu::count(|cpu| &cpu.proven_by_cookie);
    }
    if is_connected || has_cookie { Proof::Proven } else { Proof::Nothing }
}

/// Decides whether a first SYN may get an answer: within the budget, if it is for this host, and not in shadow. The budget
/// comes before the limits of the source, so that a flood charges no more of them than it allows.
#[inline(always)]
fn may_answer(ctx: *mut xdp_md, connection: &Connection, context: &Context) -> Proof {
    let may = !settings::is_on(&settings::SHADOW_ON)
        && take_cookie(context.hash, context.tick)
        && forwarded::is_forwarded(ctx, connection) == 0;
    if may { Proof::FirstSyn } else { Proof::Refused }
}

/// Answers a [first SYN](Proof::FirstSyn). If it returns true, the frame is the SYN-ACK with a cookie, to be sent back.
/// Otherwise it must be dropped: parts of it may be overwritten.
#[inline(always)]
#[must_use]
pub fn answers<const FRAGS: bool>(ctx: &XdpContext, context: &Context) -> bool {
    let transport = context.transport().0;
    match FRAGS {
        true => answer_several_buffers(ctx.ctx, transport) != 0,
        false => answer_one_buffer(ctx.ctx, transport) != 0,
    }
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn answer_several_buffers(ctx: *mut xdp_md, transport: u32) -> u32 {
    let mut connection = Connection::new();
    if !settings::proves_tcp() || read::several_buffers(ctx, &mut connection, Transport(transport)) != FIRST_SYN {
        return 0;
    }
    let length = frame::whole_length(&XdpContext::new(ctx));
    u32::from(answer(ctx, &mut connection, length))
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn answer_one_buffer(ctx: *mut xdp_md, transport: u32) -> u32 {
    let mut connection = Connection::new();
    if !settings::proves_tcp() || read::one_buffer(ctx, &mut connection, Transport(transport)) != FIRST_SYN {
        return 0;
    }
    let length = frame::Packet::of(&XdpContext::new(ctx)).length();
    u32::from(answer(ctx, &mut connection, length))
}

#[inline(always)]
fn answer(ctx: *mut xdp_md, connection: &mut Connection, length: u32) -> bool {
    let cookie = cookie::generate_cookie(ctx, connection);
    cookie >= 0 && syn_ack::send_back(&XdpContext::new(ctx), length, cookie as u32)
}

/// Cost of a look-up for a CPU: 500,000 per second. At 100 ns each, a flood costs a twentieth of its time.
const OF_A_CPU: Units = gcra::units(SECOND / 500_000);
/// Look-ups that a CPU may do at once. The coarse clock may stand still for 10 ms.
const BURST: Units = 5_000 * OF_A_CPU;

/// Takes a look-up from the budget of this CPU.
#[inline(always)]
pub(super) fn take_proof(tick: u64) -> bool {
    let Some(cpu) = this_cpu::get() else { return false };
    let is_taken = budget::take(&cpu.proof_budget, gcra::units(tick), OF_A_CPU, BURST);
    if is_taken { &cpu.proofs_looked_up } else { &cpu.proofs_not_looked_up }.increment();
    is_taken
}

/// Takes a SYN cookie from the budget of all CPUs, before the look-up of its port. So a flood to closed ports costs no
/// more look-ups. While more than half of the burst is spent, sources take turns.
#[inline(never)]
pub(super) fn take_cookie(hash: u64, tick: u64) -> bool {
    let (Some(control), Some(state)) = (control::get(), shared::cookies()) else { return false };
    let (limit, now, mut found) = (&control.proofs, gcra::units(tick), state.load());
    let is_taken = unknown_rate::has_turn(limit.burst, found, tick, hash)
        && exchange::<FEW_TRIES>(state, |seen| {
            found = seen;
            if limit.cost == 0 { None } else { budget::next(seen, now, limit.cost, limit.burst) }
        });
    if !is_taken {
        budget::cut(state, found, now, limit.burst, || Clock::coarse(control).units());
        this_cpu::count(|cpu| &cpu.cookies_unsent);
    }
    is_taken
}
