//! The second stage: a source's own bucket, for what its cell does not let pass.

use ratelimit_common::{bucket::Resolution, policy::Policy, reason::Reason, source::Source, stages};

use crate::{
    admission,
    apart::given,
    atomic::Word,
    bucket::Tracked,
    charge::Charge,
    clock::Clock,
    front::{self, Cell},
    levels,
    maps::CONTROL,
    notes, overrun,
    pair::{self, Pair},
    tracking,
    visit::Visit,
};

/// What the source's own bucket says to a packet that its cell has no room for. It is made if there is none.
#[inline(always)]
#[must_use]
pub fn ask(visit: &Visit) -> Reason {
    ask_own(visit)
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn ask_own(visit: *const Visit) -> Reason {
    let (Some(visit), Some(control)) = (given(visit), CONTROL.get(0)) else { return Reason::NoState };
    let (Some(cell), Some(policy)) = (front::cell(visit.hash), visit.policy()) else { return Reason::NoState };
    let clock = visit.clock(control);
    let bucket = match tracking::find(&visit.source) {
        Some(bucket) => bucket,
        None if !admission::admits(control, visit.tick) => {
            notes::settle(visit, None);
            return overrun::settle(visit, policy, None, Reason::NotAdmitted);
        }
        None => {
            make(&visit.source, visit.hash, policy, visit.resolution, &clock);
            let Some(bucket) = tracking::find(&visit.source) else { return Reason::TableFull };
            let is_told = policy.ban.time == 0;
            let passed = if is_told { passed_before(policy, cell, &clock, visit.amounts(policy)) } else { 0 };
            bucket.count_passed(passed, passed.wrapping_mul(u64::from(visit.length())));
            bucket
        }
    };
    notes::settle(visit, Some(bucket));
    let reason = judge(visit.amounts(policy), &clock, policy, cell, bucket);
    match reason.passes() {
        true => overrun::passes(visit, bucket, reason),
        false => overrun::settle(visit, policy, Some(bucket), reason),
    }
}

/// Makes a bucket with the debt that the cell shows above its part: neither a new source nor one whose bucket was evicted gains by it.
#[inline(always)]
pub fn make(source: &Source, hash: u64, policy: &Policy, resolution: Resolution, clock: &Clock<'_>) {
    let Some(cell) = front::cell(hash) else { return };
    let handed = |level: &Word, meter| stages::handed(levels::debt(level, clock), clock.units(), meter);
    admission::make(source, handed(&cell.packets, &policy.packets), handed(&cell.second, &policy.second), resolution);
}

/// Packets like this one that the cell has let pass of late, by what it owes: exact for a source that has just begun, alone in its cell. What it
/// owes beyond its part is others', or was told before.
#[inline(always)]
fn passed_before(policy: &Policy, cell: &Cell, clock: &Clock<'_>, [one, amount]: [u32; 2]) -> u64 {
    let (debt, front, cost) = match policy.packets.is_on() {
        true => (levels::debt(&cell.packets, clock), policy.packets.front, policy.packets.cost_of(one)),
        false => (levels::debt(&cell.second, clock), policy.second.front, policy.second.cost_of(amount)),
    };
    if debt > front {
        return 0;
    }
    // Rounded up: some of what it paid for the first has drained by now.
    debt.saturating_add(cost.saturating_sub(1)).checked_div(cost).unwrap_or(0)
}

/// Both limits are asked before either is charged, as in [`Tracked::ask`].
#[inline(always)]
fn judge([one, amount]: [u32; 2], clock: &Clock<'_>, policy: &Policy, cell: &Cell, bucket: &Tracked) -> Reason {
    let (packets, second) = (&policy.packets, &policy.second);
    let mut by_second = Pair::new(&cell.second, &bucket.second, second, amount);
    let mut by_packets = Pair::new(&cell.packets, &bucket.packets, packets, one);
    if packets.is_on() != second.is_on() {
        let pair = if packets.is_on() { &by_packets } else { &by_second };
        // Otherwise there is room left in the cell, or a debt to be cut, or other CPUs were first: what follows tells.
        if pair::pay_rest(pair, clock) == Charge::Paid {
            return Reason::WithinLimit;
        }
    }
    if second.is_on() && pair::refuses(&by_second, clock) {
        return policy.second_reason();
    }
    if packets.is_on() && pair::refuses(&by_packets, clock) {
        return Reason::OverPackets;
    }
    if packets.is_on() {
        match pair::pay(&mut by_packets, clock) {
            Charge::Paid => {}
            Charge::Refused => return Reason::OverPackets,
            Charge::Contended => return Reason::Contended,
        }
    }
    if second.is_on() {
        let outcome = pair::pay(&mut by_second, clock);
        if outcome != Charge::Paid && packets.is_on() {
            by_packets.refund(clock);
        }
        match outcome {
            Charge::Paid => {}
            Charge::Refused => return policy.second_reason(),
            Charge::Contended => return Reason::Contended,
        }
    }
    Reason::WithinLimit
}
