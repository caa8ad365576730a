//! What is remembered of a source: its place, the budgets of its look-ups, and the rate of its packets that are spared.
//!
//! Keyed hashes are in functions of their own because of their registers.

use ratelimit_common::{
    cells::own_connection::{self, Remembered},
    identity::class::ANY,
    limits::limit::SECOND,
    maps::control::Control,
    meters::gcra::{self, Units},
};

use crate::{
    bpf::{atomic::Word, clock::Clock, settings},
    maps::{
        exchange::{self, FEW_TRIES, exchange},
        own_connections::{self as places, Peer},
        this_cpu,
    },
    meters::budget,
    packet::context::{Context, NOT_LOOKED_UP, NOT_OWN},
    parse::connection::{Connection, IS_CHOSEN, IS_TCP},
};

/// The place of a source, which other sources may share.
pub(super) struct Place {
    pub(super) peer: &'static Peer,
    hash: u64,
    /// Own connections got packets from the source.
    pub(super) is_peer: bool,
}

/// Returns the place of a packet's source.
#[inline(always)]
pub(super) fn find(context: &Context, control: &Control) -> Option<Place> {
    let hash = hash_of_source(context, control);
    let peer = places::peer(hash)?;
    let marked = Remembered(peer.seen.load());
    Some(Place { peer, hash, is_peer: marked.is(hash) && marked.is_kept(context.tick) })
}

impl Place {
    /// Remembers that an own connection got a packet.
    #[inline(always)]
    pub(super) fn mark(&self, now: u64) {
        let mark = Remembered::new(self.hash, true, now).0;
        if self.peer.seen.load() != mark {
            self.peer.seen.store(mark);
        }
    }
}

/// Returns the hash of the billed source without its service.
#[inline(never)]
pub(super) fn hash_of_source(context: &Context, control: &Control) -> u64 {
    if settings::has_cells() && context.source.class == u16::from(ANY) {
        return context.hash;
    }
    context.source.of_class(ANY).hash(&control.seed)
}

/// Returns the hash of a connection.
#[inline(never)]
pub(super) fn hash_of_connection(connection: &Connection, control: &Control) -> u64 {
    own_connection::hash(|index| connection.word(index), connection.kind + 1, &control.seed)
}

/// Longest debt of a source with look-ups in vain: those of one second.
const OF_A_SECOND: Units = gcra::units(SECOND);
/// Cost of a look-up in vain for a source with own connections, or to a port that the kernel chooses for connections
/// that this host opens: 16 per second.
const PROBABLE: Units = OF_A_SECOND / 16;
/// Cost of a look-up for a CPU: 100,000 per second for TCP and as many for UDP, about a hundredth of its time each. All
/// sources together have 16,384 per second to other ports, so a flood of a service leaves most of it.
const OF_A_CPU: Units = gcra::units(SECOND / 100_000);
/// Look-ups that a CPU may do at once. The coarse clock may stand still for 10 ms.
const BURST_OF_A_CPU: Units = 1_000 * OF_A_CPU;

/// The budgets that apply to a look-up.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    /// Own connections got packets from the source.
    pub(super) is_peer: bool,
    /// [`IS_TCP`] and [`IS_CHOSEN`] of the packet's connection.
    pub(super) connection: u32,
}

impl Kind {
    /// Returns the budgets that apply to a packet whose connection is of this [kind](crate::parse::connection::Connection::kind).
    #[inline(always)]
    pub(super) const fn of(kind: u32, is_peer: bool) -> Self {
        Self { is_peer, connection: kind & (IS_TCP | IS_CHOSEN) }
    }

    /// Returns the source's own budget among those of its place. A flood of one kind spends no other.
    #[inline(always)]
    fn budget(self, peer: &Peer) -> Option<&Word> {
        // LLVM would leave the check out that the verifier must see.
        // SAFETY: a reference is readable.
        let kind = unsafe { (&raw const self.connection).read_volatile() };
        peer.look_ups.get(kind as usize)
    }

    /// Returns the answer for a packet that is not looked up. It sets no ban if its port is one that the kernel chooses for
    /// connections. Otherwise a flood of a service could not be banned.
    #[inline(always)]
    pub(super) const fn unanswered(self) -> u32 {
        if self.connection & IS_CHOSEN != 0 { NOT_LOOKED_UP } else { NOT_OWN }
    }

    #[inline(always)]
    const fn cost(self) -> Units {
        if self.is_peer || self.connection & IS_CHOSEN != 0 { PROBABLE } else { OF_A_SECOND }
    }
}

/// Result of [`take_look_up`] if a budget is spent. No state of the source's budget is odd.
pub(super) const SPENT: u64 = 1;
/// Stands for a look-up that takes from no budget.
pub(super) const FREE: u64 = 3;

/// Returns whether the source's budget is spent.
#[inline(always)]
pub(super) fn are_look_ups_spent(peer: &Peer, kind: Kind, control: &Control, tick: u64) -> bool {
    let Some(look_ups) = kind.budget(peer) else { return true };
    let (now, seen) = (gcra::units(tick), look_ups.load());
    let is_spent = budget::next(seen, now, kind.cost(), OF_A_SECOND).is_none();
    if is_spent {
        budget::cut(look_ups, seen, now, OF_A_SECOND, || Clock::coarse(control).units());
    }
    is_spent
}

/// Takes a look-up from the budgets of the source and of this CPU. Returns the state of the source's budget, for
/// [`give_look_up_back`].
#[inline(never)]
pub(super) fn take_look_up(peer: &Peer, kind: Kind, control: &Control, tick: u64) -> u64 {
    let Some(look_ups) = kind.budget(peer) else { return SPENT };
    let (now, seen) = (gcra::units(tick), look_ups.load());
    let Some(next) = budget::next(seen, now, kind.cost(), OF_A_SECOND) else {
        budget::cut(look_ups, seen, now, OF_A_SECOND, || Clock::coarse(control).units());
        return SPENT;
    };
    let Some(cpu) = this_cpu::get() else { return SPENT };
    let [tcp, udp] = &cpu.own_budgets;
    if !budget::take(if kind.connection & IS_TCP != 0 { tcp } else { udp }, now, OF_A_CPU, BURST_OF_A_CPU) {
        cpu.own_not_looked_up.increment();
        return SPENT;
    }
    if look_ups.compare_exchange(seen, next).is_ok() { next } else { SPENT }
}

/// Gives a look-up back that was not in vain.
#[inline(always)]
pub(super) fn give_look_up_back(peer: &Peer, taken: u64, kind: Kind) {
    if let Some(look_ups) = kind.budget(peer) {
        exchange::undo(look_ups, taken, kind.cost());
    }
}

/// Takes one packet from the rate of a source's own connections.
#[inline(never)]
pub(super) fn is_within_rate(rate: &Word, control: &Control, tick: u64) -> bool {
    let (now, mut found) = (gcra::units(tick), 0);
    let is_taken = exchange::<FEW_TRIES>(rate, |state| {
        found = state;
        budget::next(state, now, control.own.cost, control.own.burst)
    });
    if !is_taken {
        budget::cut(rate, found, now, control.own.burst, || Clock::coarse(control).units());
    }
    is_taken
}
