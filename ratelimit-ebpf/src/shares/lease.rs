//! Finds the lease of a packet's source, and charges it with multiplied costs.

use ratelimit_common::{
    fleet::lease,
    limits::policy::Policy,
    maps::control::Control,
    meters::{
        gcra::{self, Answer, Units},
        meter::Meter,
        state,
    },
};

use crate::{
    bpf::{atomic::Word, settings, verifier::given},
    maps::{
        exchange::{FEW_TRIES, exchange},
        leases::{self, Lease},
    },
    packet::context::{Context, Share},
};

/// What a lease says to a packet.
#[derive(Clone, Copy, PartialEq)]
#[repr(u32)]
enum Said {
    /// The source has no lease, or the charge was given back.
    Nothing,
    /// The whole limit is left, so only the limit itself refuses. It is asked first.
    Whole,
    /// The lease is charged.
    Paid,
    /// The lease has no room.
    Refused,
}

/// Charges the lease of the context's source, and notes that. Returns whether it has no room for the packet. Reads the
/// clock that the policy needs.
///
/// Where exceeding the own limit leads to a ban, that limit is asked first. Otherwise a lease would prevent bans.
#[inline(always)]
#[must_use]
pub fn refuses(context: &mut Context, control: &Control, policy: &Policy) -> bool {
    if policy.ban.time != 0 {
        context.note_share(Share::Later);
        return false;
    }
    context.set_clock(control, policy);
    match ask_lease(context, control, false) {
        Said::Nothing => {}
        Said::Whole => context.note_share(Share::Later),
        Said::Paid => context.note_share(Share::Paid),
        Said::Refused => return true,
    }
    false
}

/// Charges the lease with a packet that all other limits have admitted, or gives back what a refused packet was charged.
/// Returns whether the lease refuses the packet.
#[inline(always)]
#[must_use]
pub fn refuses_at_last(context: &Context, control: &Control) -> bool {
    context.has_paid_share() != context.reason.passes() && ask_lease(context, control, true) == Said::Refused
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn ask_lease(context: *const Context, control: *const Control, is_last: bool) -> Said {
    if !settings::has_leases() {
        return Said::Nothing;
    }
    let (Some(context), Some(control)) = (given(context), given(control)) else { return Said::Nothing };
    let Some(lease) = lease_of(context, control) else { return Said::Nothing };
    let is_whole = lease.multiplier.load() <= lease::WHOLE;
    if is_whole && !is_last {
        return Said::Whole;
    }
    let Some(policy) = context.policy() else { return Said::Nothing };
    let (now, costs) = (context.clock(control).units(), costs(context, policy));
    if is_last && context.has_paid_share() {
        give_back(lease, policy, costs, now);
        lease.admitted.add(largest(costs).wrapping_neg());
        return Said::Nothing;
    }
    if !pay(lease, policy, costs, now) && !is_whole {
        return Said::Refused;
    }
    lease.admitted.add(largest(costs));
    Said::Paid
}

/// Number of tries of a charge. A packet that loses all is refused.
const TRIES: u32 = 4;

/// Returns the costs of a packet in both limits of its policy.
#[inline(always)]
pub(super) fn costs(context: &Context, policy: &Policy) -> [Units; 2] {
    let [one, amount] = context.amounts(policy);
    [policy.packets.cost_of(one), policy.second.cost_of(amount)]
}

#[inline(always)]
pub(super) fn largest([one, amount]: [Units; 2]) -> Units {
    if one > amount { one } else { amount }
}

/// One limit with costs that a lease multiplies.
struct Multiplied<'a> {
    word: &'a Word,
    meter: &'a Meter,
    cost: Units,
    /// The largest debt that packets can have made under this multiplier.
    ceiling: Units,
}

impl<'a> Multiplied<'a> {
    #[inline(always)]
    fn new(word: &'a Word, meter: &'a Meter, cost: Units, multiplier: u64) -> Self {
        let (cost, largest) = (lease::multiplied(cost, multiplier), lease::multiplied(meter.ceiling, multiplier));
        Self { word, meter, cost, ceiling: if largest > meter.burst { largest } else { meter.burst } }
    }

    /// Asks for the cost. A larger debt than the ceiling is cut.
    #[inline(always)]
    fn ask(&self, seen: u64, now: Units) -> Answer {
        gcra::ask_owing(state::debt(seen, now), now, self.cost, self.meter.burst, self.ceiling)
    }

    /// Returns whether the limit has room. If not, [`Self::charge`] cuts its debt.
    #[inline(always)]
    fn has_room(&self, now: Units) -> bool {
        !matches!(self.ask(self.word.load(), now), Answer::Refuse)
    }

    #[inline(always)]
    fn charge(&self, now: Units) -> bool {
        if !self.meter.is_on() {
            return true;
        }
        let mut is_admitted = false;
        let is_written = exchange::<TRIES>(self.word, |seen| {
            let answer = self.ask(seen, now);
            is_admitted = matches!(answer, Answer::Admit(_));
            match answer {
                Answer::Admit(next) | Answer::Cap(next) => Some(next),
                Answer::Refuse => None,
            }
        });
        is_written && is_admitted
    }
}

/// Charges both limits. If the second has no room, neither is charged, unless another CPU was faster.
#[inline(always)]
pub(super) fn pay(lease: &Lease, policy: &Policy, [one, amount]: [Units; 2], now: Units) -> bool {
    let (Policy { packets, second, .. }, multiplier) = (policy, lease.multiplier.load());
    let also = Multiplied::new(&lease.second, second, amount, multiplier);
    if packets.is_on() {
        let is_open = !second.is_on() || also.has_room(now);
        if !is_open || !Multiplied::new(&lease.packets, packets, one, multiplier).charge(now) {
            return false;
        }
    }
    also.charge(now)
}

/// Gives the charges of both limits back.
#[inline(always)]
pub(super) fn give_back(lease: &Lease, policy: &Policy, [one, amount]: [Units; 2], now: Units) {
    give_back_one(&lease.packets, &policy.packets, one, lease, now);
    give_back_one(&lease.second, &policy.second, amount, lease, now);
}

/// Gives a charge back, as far as the debt has it. If another CPU writes at each try, the charge stays.
#[inline(always)]
fn give_back_one(word: &Word, meter: &Meter, cost: Units, lease: &Lease, now: Units) {
    if !meter.is_on() {
        return;
    }
    let cost = lease::multiplied(cost, lease.multiplier.load());
    let _ = exchange::<FEW_TRIES>(word, |seen| {
        let debt = state::debt(seen, now);
        (debt != 0).then_some(now.wrapping_add(debt.saturating_sub(cost)))
    });
}

/// Returns the lease that holds for the source of the context.
#[inline(always)]
#[must_use]
pub(super) fn lease_of(context: &Context, control: &Control) -> Option<&'static Lease> {
    leases::find(hash_of(context, control), context.tick)
}

/// Returns the hash of the context's source. Without cells, the context has none.
#[inline(always)]
#[must_use]
pub(super) fn hash_of(context: &Context, control: &Control) -> u64 {
    if settings::has_cells() { context.hash } else { context.source.hash(&control.seed) }
}
