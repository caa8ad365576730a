//! Writes into cells who is refused, and until when.

use ratelimit_common::{
    gcra::{self, Units},
    note::Refusal,
    policy::COARSE,
    reason::Reason,
};

use crate::{
    clock::Clock,
    front,
    pair::{self, Pair},
    visit::Visit,
};

/// Twice what a note's end is rounded by. While the coarse clock stands, a refusal that ends sooner holds as long as that.
const SHORTEST: Units = 1 << 21;

/// Writes into the cell that this source is refused, and until when, unless another source keeps the note.
#[inline(always)]
pub fn write_for(visit: &Visit<'_>, pair: &Pair<'_>, clock: &Clock<'_>, reason: Reason, length: u32) {
    if !is_kept(visit) {
        return;
    }
    let precise = visit.policy().is_none_or(|policy| policy.flags & COARSE == 0);
    let wait = pair::wait(pair, clock);
    write(visit, if precise { wait } else { wait.max(SHORTEST) }, precise, reason, length);
}

#[inline(never)]
fn is_kept(visit: &Visit<'_>) -> bool {
    let cell = front::cell(visit.note_hash);
    cell.is_some_and(|cell| cell.takes_note_of(visit.note_hash, visit.resolution.generation(), visit.now))
}

/// Notes for as long as `wait`, unless a rule ends sooner.
#[inline(never)]
pub fn write(visit: &Visit<'_>, wait: Units, precise: bool, reason: Reason, length: u32) {
    let Some(cell) = front::cell(visit.note_hash) else { return };
    let left = visit.resolution.ends().saturating_sub(visit.now).min(gcra::MAX_DEBT >> gcra::FRACTION_BITS);
    let until = gcra::units(visit.now).wrapping_add(wait.min(gcra::units(left)));
    let generation = visit.resolution.generation();
    cell.write(Refusal { hash: visit.note_hash, generation, until, precise, reason, length }, visit.now);
}
