//! The second stage: a source's own bucket, for what its cell does not let pass.

use ratelimit_common::{
    bucket::Resolution,
    gcra::{self, Answer, Units},
    note::Refusal,
    policy::{COARSE, Meter, Policy},
    reason::Reason,
    source::Source,
    stages,
};

use crate::{
    admission,
    atomic::Word,
    ban,
    bucket::Tracked,
    charge::{self, Charge},
    clock::Clock,
    front::{self, Cell},
    tracking,
    visit::Visit,
};

/// Twice what a note's end is rounded by. While the coarse clock stands, a refusal that ends sooner holds as long as that.
const SHORTEST: Units = 1 << 21;

/// What the source's own bucket says to a packet that its cell has no room for. It is made if there is none.
#[inline(never)]
#[must_use]
pub fn ask(visit: &Visit<'_>) -> Reason {
    let (Some(cell), Some(policy)) = (front::cell(visit.hash), visit.policy()) else { return Reason::NoState };
    let bucket = match tracking::find(&visit.source) {
        Some(bucket) => bucket,
        None if !admission::admits(visit.control, visit.now) => return Reason::NotAdmitted,
        None => {
            make(&visit.source, visit.hash, policy, visit.resolution, &visit.clock());
            let Some(bucket) = tracking::find(&visit.source) else { return Reason::TableFull };
            let passed = passed_before(policy, cell, &visit.clock(), visit.length);
            bucket.count_passed(passed, passed.wrapping_mul(u64::from(visit.length)));
            bucket
        }
    };
    let reason = judge(visit, policy, cell, bucket);
    if matches!(reason, Reason::OverPackets | Reason::OverBytes) {
        ban::impose(visit, policy, bucket);
    }
    settle(visit, bucket);
    bucket.count(reason.passes(), visit.length);
    reason
}

/// Makes a bucket with the debt that the cell shows above its part: neither a new source nor one whose bucket was evicted gains by it.
#[inline(always)]
pub fn make(source: &Source, hash: u64, policy: &Policy, resolution: Resolution, clock: &Clock<'_>) {
    let Some(cell) = front::cell(hash) else { return };
    let handed = |level: &Word, meter| stages::handed(front::debt(level, clock), clock.units(), meter);
    admission::make(source, handed(&cell.packets, &policy.packets), handed(&cell.bytes, &policy.bytes), resolution);
}

/// Packets like this one that the cell has let pass of late, by what it owes: exact for a source that has just begun, alone in its cell.
#[inline(always)]
fn passed_before(policy: &Policy, cell: &Cell, clock: &Clock<'_>, length: u32) -> u64 {
    let (debt, cost) = match policy.packets.is_on() {
        true => (front::debt(&cell.packets, clock), policy.packets.cost_of(1)),
        false => (front::debt(&cell.bytes, clock), policy.bytes.cost_of(length)),
    };
    debt.min(policy.packets.front.max(policy.bytes.front)).checked_div(cost).unwrap_or(0)
}

/// Moves what the note has counted to the bucket that it is about.
#[inline(always)]
pub fn settle(visit: &Visit<'_>, bucket: &Tracked) {
    if let Some(cell) = front::cell(visit.note_hash) {
        cell.settle(visit.note_hash, bucket);
    }
}

/// Both limits are asked before either is charged, as in [`Tracked::ask`].
#[inline(always)]
fn judge(visit: &Visit<'_>, policy: &Policy, cell: &Cell, bucket: &Tracked) -> Reason {
    let clock = visit.clock();
    let (packets, bytes) = (&policy.packets, &policy.bytes);
    let mut by_bytes = Pair::new(&cell.bytes, bucket.bytes(), bytes, visit.length);
    let mut by_packets = Pair::new(&cell.packets, bucket.packets(), packets, 1);
    if bytes.is_on() && refuses(&by_bytes, &clock) {
        note(visit, &by_bytes, Reason::OverBytes, visit.length);
        return Reason::OverBytes;
    }
    if packets.is_on() && refuses(&by_packets, &clock) {
        note(visit, &by_packets, Reason::OverPackets, 0);
        return Reason::OverPackets;
    }
    if packets.is_on() {
        match pay(&mut by_packets, &clock) {
            Charge::Paid => {}
            Charge::Refused => return Reason::OverPackets,
            Charge::Contended => return Reason::Contended,
        }
    }
    if bytes.is_on() {
        let outcome = pay(&mut by_bytes, &clock);
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

/// Writes into the cell that this source is refused, and until when.
#[inline(always)]
fn note(visit: &Visit<'_>, pair: &Pair<'_>, reason: Reason, length: u32) {
    let clock = visit.clock();
    let precise = visit.policy().is_none_or(|policy| policy.flags & COARSE == 0);
    let wait = wait(front::debt(pair.level, &clock), gcra::debt(pair.own.load(), clock.units()), pair.cost, pair.meter);
    write_note(visit, if precise { wait } else { wait.max(SHORTEST) }, precise, reason, length);
}

/// A function of its own, for the verifier to go on from it in one state.
#[inline(never)]
fn wait(level_debt: Units, own_debt: Units, cost: Units, meter: &Meter) -> Units {
    stages::wait(level_debt, own_debt, cost, meter)
}

/// Notes for as long as `wait`, unless a rule ends sooner.
#[inline(never)]
pub fn write_note(visit: &Visit<'_>, wait: Units, precise: bool, reason: Reason, length: u32) {
    let Some(cell) = front::cell(visit.note_hash) else { return };
    let left = visit.resolution.ends().saturating_sub(visit.now).min(gcra::MAX_DEBT >> gcra::FRACTION_BITS);
    let until = gcra::units(visit.now).wrapping_add(wait.min(gcra::units(left)));
    let generation = visit.resolution.generation();
    cell.write(Refusal { hash: visit.note_hash, generation, until, precise, reason, length }, visit.now);
}

/// One limit's two stages, and a packet.
struct Pair<'a> {
    level: &'a Word,
    own: &'a Word,
    meter: &'a Meter,
    cost: Units,
    /// What each has paid.
    paid_level: Units,
    paid_own: Units,
}

impl<'a> Pair<'a> {
    #[inline(always)]
    fn new(level: &'a Word, own: &'a Word, meter: &'a Meter, amount: u32) -> Self {
        Self { level, own, meter, cost: meter.cost_of(amount), paid_level: 0, paid_own: 0 }
    }

    /// Gives back what was paid.
    #[inline(always)]
    fn refund(&self, clock: &Clock<'_>) {
        charge::refund(self.level, clock.units(), self.paid_level);
        charge::refund(self.own, clock.units(), self.paid_own);
    }
}

/// Whether the own bucket refuses. Nothing is charged.
#[inline(never)]
fn refuses(pair: &Pair<'_>, clock: &Clock<'_>) -> bool {
    let now = clock.units();
    match stages::ask_own(pair.own.load(), front::debt(pair.level, clock), now, pair.cost, pair.meter) {
        Answer::Admit(_) => false,
        Answer::Refuse => true,
        Answer::Cap(_) => {
            charge::cap(pair.own, pair.meter, clock, pair.meter.capacity - pair.meter.front);
            true
        }
    }
}

/// Charges the cell first, so that its room is nobody else's, and then the own bucket for the rest. A function of its own, for the
/// verifier to walk through its tries once.
#[inline(never)]
fn pay(pair: &mut Pair<'_>, clock: &Clock<'_>) -> Charge {
    let (now, cost, meter) = (clock.units(), pair.cost, pair.meter);
    let mut level = 0;
    let outcome = charge::exchange::<{ charge::FEW_TRIES }>(pair.level, |seen| {
        level = seen;
        Some(charged_cell(seen, clock, cost, meter))
    });
    if outcome != Charge::Paid {
        return outcome;
    }
    let before = stages::level_debt(level, now, clock.largest_debt());
    pair.paid_level = charged_cell(level, clock, cost, meter).wrapping_sub(now).wrapping_sub(before);
    pair.paid_own = stages::share(before, cost, meter);
    let outcome = charge::exchange::<{ charge::FEW_TRIES }>(pair.own, |seen| {
        let next = charged_own(seen, before, now, cost, meter);
        (next != REFUSED).then_some(next)
    });
    if outcome != Charge::Paid {
        charge::refund(pair.level, now, pair.paid_level);
    }
    outcome
}

/// [`stages::charge_cell`] as a function of its own, for the verifier to go on from it in one state.
#[inline(never)]
fn charged_cell(level: u64, clock: &Clock<'_>, cost: Units, meter: &Meter) -> u64 {
    let now = clock.units();
    stages::charge_cell(stages::level_debt(level, now, clock.largest_debt()), now, cost, meter)
}

/// No state that a bucket has: [`charged_own`] says so.
const REFUSED: u64 = u64::MAX;

/// The state of the own bucket afterwards, in the same way; [`REFUSED`] if it refuses.
#[inline(never)]
fn charged_own(own: u64, level_debt: Units, now: Units, cost: Units, meter: &Meter) -> u64 {
    match stages::ask_own(own, level_debt, now, cost, meter) {
        Answer::Admit(next) => next,
        Answer::Refuse | Answer::Cap(_) => REFUSED,
    }
}
