//! The second stage: a source's own bucket, for what its cell does not let pass.

use ratelimit_common::{bucket::Resolution, policy::Policy, reason::Reason, source::Source, stages};

use crate::{
    admission,
    atomic::Word,
    ban,
    bucket::Tracked,
    charge::Charge,
    clock::Clock,
    front::{self, Cell},
    levels, notes,
    pair::{self, Pair},
    tracking,
    visit::Visit,
};

/// What the source's own bucket says to a packet that its cell has no room for. It is made if there is none.
#[inline(never)]
#[must_use]
pub fn ask(visit: &Visit<'_>) -> Reason {
    let (Some(cell), Some(policy)) = (front::cell(visit.hash), visit.policy()) else { return Reason::NoState };
    let bucket = match tracking::find(&visit.source) {
        Some(bucket) => bucket,
        None if !admission::admits(visit.control, visit.tick) => {
            notes::settle(visit, None);
            return Reason::NotAdmitted;
        }
        None => {
            make(&visit.source, visit.hash, policy, visit.resolution, &visit.clock());
            let Some(bucket) = tracking::find(&visit.source) else { return Reason::TableFull };
            let is_told = policy.ban == 0;
            let passed = if is_told { passed_before(policy, cell, &visit.clock(), visit.length) } else { 0 };
            bucket.count_passed(passed, passed.wrapping_mul(u64::from(visit.length)));
            bucket
        }
    };
    notes::settle(visit, Some(bucket));
    let reason = judge(visit, policy, cell, bucket);
    // What a new bucket owes may be its neighbours': only after it has admitted as much as it holds, a refusal is certainly its source's doing.
    let is_certain = match reason {
        Reason::OverPackets => policy.packets.is_rest_filled_by(bucket.passed_packets.load()),
        Reason::OverBytes => policy.bytes.is_rest_filled_by(bucket.passed_bytes.load()),
        _ => false,
    };
    if is_certain {
        ban::impose(visit, policy, bucket);
    }
    bucket.count(reason.passes(), visit.length);
    reason
}

/// Makes a bucket with the debt that the cell shows above its part: neither a new source nor one whose bucket was evicted gains by it.
#[inline(always)]
pub fn make(source: &Source, hash: u64, policy: &Policy, resolution: Resolution, clock: &Clock<'_>) {
    let Some(cell) = front::cell(hash) else { return };
    let handed = |level: &Word, meter| stages::handed(levels::debt(level, clock), clock.units(), meter);
    admission::make(source, handed(&cell.packets, &policy.packets), handed(&cell.bytes, &policy.bytes), resolution);
}

/// Packets like this one that the cell has let pass of late, by what it owes: exact for a source that has just begun, alone in its cell. What it
/// owes beyond its part is others', or was told before.
#[inline(always)]
fn passed_before(policy: &Policy, cell: &Cell, clock: &Clock<'_>, length: u32) -> u64 {
    let (debt, front, cost) = match policy.packets.is_on() {
        true => (levels::debt(&cell.packets, clock), policy.packets.front, policy.packets.cost_of(1)),
        false => (levels::debt(&cell.bytes, clock), policy.bytes.front, policy.bytes.cost_of(length)),
    };
    if debt > front {
        return 0;
    }
    // Rounded up: some of what it paid for the first has drained by now.
    debt.saturating_add(cost.saturating_sub(1)).checked_div(cost).unwrap_or(0)
}

/// Both limits are asked before either is charged, as in [`Tracked::ask`].
#[inline(always)]
fn judge(visit: &Visit<'_>, policy: &Policy, cell: &Cell, bucket: &Tracked) -> Reason {
    let clock = visit.clock();
    let (packets, bytes) = (&policy.packets, &policy.bytes);
    let mut by_bytes = Pair::new(&cell.bytes, &bucket.bytes, bytes, visit.length);
    let mut by_packets = Pair::new(&cell.packets, &bucket.packets, packets, 1);
    if packets.is_on() != bytes.is_on() {
        let pair = if packets.is_on() { &by_packets } else { &by_bytes };
        // Otherwise there is room left in the cell, or a debt to be cut, or other CPUs were first: what follows tells.
        if pair::pay_rest(pair, &clock) == Charge::Paid {
            return Reason::WithinLimit;
        }
    }
    if bytes.is_on() && pair::refuses(&by_bytes, &clock) {
        notes::write_for(visit, &by_bytes, &clock, Reason::OverBytes, visit.length);
        return Reason::OverBytes;
    }
    if packets.is_on() && pair::refuses(&by_packets, &clock) {
        notes::write_for(visit, &by_packets, &clock, Reason::OverPackets, 0);
        return Reason::OverPackets;
    }
    if packets.is_on() {
        match pair::pay(&mut by_packets, &clock) {
            Charge::Paid => {}
            Charge::Refused => return Reason::OverPackets,
            Charge::Contended => return Reason::Contended,
        }
    }
    if bytes.is_on() {
        let outcome = pair::pay(&mut by_bytes, &clock);
        if outcome != Charge::Paid && packets.is_on() {
            by_packets.refund(&clock);
        }
        match outcome {
            Charge::Paid => {}
            Charge::Refused => return Reason::OverBytes,
            Charge::Contended => return Reason::Contended,
        }
    }
    Reason::WithinLimit
}
