//! The second stage: a source's own bucket, for what its cell does not let pass.

use ratelimit_common::{
    buckets::bucket::Resolution, identity::source::Source, limits::policy::Policy, meters::stages, reason::Reason,
};

use crate::{
    bpf::{atomic::Word, clock::Clock},
    buckets::{admission, handover},
    cells::{
        cell::{self, Cell},
        level,
    },
    limits::{pair::Pair, payment::Payment},
    maps::all::CONTROL,
    meters::{charge::Charge, token_bucket::Tracked},
    overlimit::refusals,
    packet::context::Visit,
    rules::cache,
};

/// Puts down in the visit what the source's own bucket says to a packet that its cell has no room for. It is made if there is none.
#[inline(never)]
#[must_use]
pub fn ask(visit: &mut Visit) -> Option<&'static Tracked> {
    visit.reason = Reason::NoState;
    let (control, cell, policy) = (CONTROL.get(0)?, cell::cell(visit.hash)?, visit.policy()?);
    let clock = visit.clock(control);
    let mut found = cache::find(&visit.source);
    if found.is_none() {
        if !admission::admits(control, visit.tick) {
            refusals::settle(visit, None);
            visit.reason = Reason::NotAdmitted;
            return None;
        }
        make(&visit.source, visit.hash, policy, visit.resolution, &clock);
        visit.reason = Reason::TableFull;
        found = cache::find(&visit.source);
        let is_told = policy.ban.time == 0;
        let passed = if is_told { passed_before(policy, cell, &clock, visit.amounts(policy)) } else { 0 };
        found?.counts.count_passed(passed, passed.wrapping_mul(u64::from(visit.length())));
    }
    let bucket = found?;
    handover::follow(bucket, visit.hash, visit.resolution, control, visit.tick);
    refusals::settle(visit, Some(bucket));
    visit.reason = judge(visit.amounts(policy), &clock, policy, cell, bucket);
    if visit.reason.passes() {
        bucket.counts.count_passed(1, u64::from(visit.length()));
    }
    Some(bucket)
}

/// Makes a bucket with the debt that the cell shows above its part: neither a new source nor one whose bucket was evicted gains by it.
#[inline(always)]
pub fn make(source: &Source, hash: u64, policy: &Policy, resolution: Resolution, clock: &Clock<'_>) {
    let Some(cell) = cell::cell(hash) else { return };
    let handed = |level: &Word, meter| stages::handed(level::debt(level, clock), clock.units(), meter);
    admission::make(source, handed(&cell.packets, &policy.packets), handed(&cell.second, &policy.second), resolution);
}

/// Packets like this one that the cell has let pass of late, by what it owes: exact for a source that has just begun, alone in its cell. What it
/// owes beyond its part is others', or was told before.
#[inline(always)]
fn passed_before(policy: &Policy, cell: &Cell, clock: &Clock<'_>, [one, amount]: [u32; 2]) -> u64 {
    let (debt, front, cost) = match policy.packets.is_on() {
        true => (level::debt(&cell.packets, clock), policy.packets.front, policy.packets.cost_of(one)),
        false => (level::debt(&cell.second, clock), policy.second.front, policy.second.cost_of(amount)),
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
    let by_packets = Pair::new(&cell.packets, &bucket.packets, packets);
    let by_second = Pair::new(&cell.second, &bucket.second, second);
    let mut for_packets = Payment::new(packets, one, clock.now());
    let mut for_second = Payment::new(second, amount, clock.now());
    if packets.is_on() != second.is_on() {
        // Otherwise there is room left in the cell, or a debt to be cut, or other CPUs were first: what follows tells.
        let outcome = match packets.is_on() {
            true => by_packets.pay_rest(&for_packets),
            false => by_second.pay_rest(&for_second),
        };
        if outcome == Charge::Paid {
            return Reason::WithinLimit;
        }
    }
    if second.is_on() && by_second.refuses(&for_second) {
        return policy.second_reason();
    }
    if packets.is_on() && by_packets.refuses(&for_packets) {
        return Reason::OverPackets;
    }
    if packets.is_on() {
        match by_packets.pay(&mut for_packets) {
            Charge::Paid => {}
            Charge::Refused => return Reason::OverPackets,
            Charge::Contended => return Reason::Contended,
        }
    }
    if second.is_on() {
        let outcome = by_second.pay(&mut for_second);
        if outcome != Charge::Paid && packets.is_on() {
            by_packets.refund(&for_packets, clock);
        }
        match outcome {
            Charge::Paid => {}
            Charge::Refused => return policy.second_reason(),
            Charge::Contended => return Reason::Contended,
        }
    }
    Reason::WithinLimit
}
