//! Repeats refusals from the table, in front of the cells, and writes them.
//!
//! The table has only refusals of all packets of a source. What depends on sizes, answers, shadow, room or own
//! connections stays in the cells. A refusal that the table has lost costs its source's next packet a cell.

use ratelimit_common::{
    cells::{
        cached_refusal::CachedRefusal,
        refusal_line::{CHOICES, Head, RefusalWord},
    },
    limits::policy::DROP,
    maps::control::Control,
    meters::gcra::{FRACTION_BITS, Units},
    reason::Reason,
};

use crate::{
    bpf::{atomic::Word, settings, verifier::given},
    cells::repeated,
    maps::{control, refusals},
    packet::context::{Context, NOT_LOOKED_UP, OF_A_PEER, Verdict},
};

/// How far the coarse clock can be behind the precise one, and more: 17 ms.
const BEHIND: u64 = 1 << 24;

/// Returns the verdict on a packet that the table refuses, and counts the packet. If the connections of its source were
/// not looked at for a second, it writes the reason into the context, and counts nothing: the packet's connection
/// decides.
#[inline(always)]
pub fn repeat(context: &mut Context, control: &Control) -> Option<Verdict> {
    // Without refused packets, no packet waits for a line.
    if !repeated::is_recent(context) {
        return None;
    }
    let line = refusals::line(context.key())?;
    // The head comes first: while the line follows the time, the words are of a later time.
    let steps = line.head().steps(control::generation(control), context.tick);
    let refusal = line.refusal(context.key());
    if !refusal.is_in_force(steps) {
        return None;
    }
    let reason = refusal.reason();
    if settings::spares_own() && reason != Reason::Denied && !refusal.is_checked(context.tick) {
        context.hash = context.source.hash(&control.seed);
        context.reason = reason;
        context.note_own(NOT_LOOKED_UP);
    } else {
        count(context, reason);
    }
    Some(Verdict { reason, action: DROP })
}

/// Counts a packet that the table refuses for this reason.
#[inline(always)]
pub fn count(context: &Context, reason: Reason) {
    repeated::count(context, CachedRefusal::of_everything(reason).check);
}

/// Notes that the connections of the context's source were looked at. If own connections got packets from it, the table
/// forgets the source, so that each of its packets is asked about.
#[inline(always)]
pub fn note_checked(context: &Context) {
    let Some(line) = refusals::line(context.key()) else { return };
    let refusal = line.refusal(context.key());
    let checked = if context.own() >= OF_A_PEER { RefusalWord(0) } else { refusal.checked_at(context.tick) };
    line.exchange(context.key(), refusal, checked);
}

/// Returns whether a limit has refused packets of the context's source within this time, in nanoseconds, as far as the
/// table remembers.
#[inline(always)]
pub fn has_limited_within(context: &Context, time: u64) -> bool {
    let Some(line) = refusals::line(context.key()) else { return false };
    line.refusal(context.key()).has_limited_within(line.head().steps_of_time(context.tick), time)
}

/// Returns whether the table has a place for a refusal of the context's source.
#[inline(always)]
pub(super) fn has_place(context: &Context) -> bool {
    let Some(line) = refusals::line(context.key()) else { return false };
    let steps = line.head().steps(context.resolution.generation(), context.tick);
    !Head::takes(steps) || place(line.choices(context.key()), context, steps).is_some()
}

/// Writes the refusal of all packets of the context's source for as long as `wait`, unless it is one that the table
/// cannot have, the rules have changed meanwhile, or other sources keep the places.
#[inline(always)]
pub fn put(context: &Context, reason: Reason, wait: Units, precise: bool) {
    if settings::has_refusals() && context.own() < OF_A_PEER && reason != Reason::Listed {
        let wait = wait >> FRACTION_BITS;
        put_refusal(context, reason, if precise { wait.saturating_sub(BEHIND) } else { wait });
    }
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn put_refusal(context: *const Context, reason: Reason, left: u64) -> u32 {
    let (Some(context), Some(control)) = (given(context), control::get()) else { return 0 };
    let generation = context.resolution.generation();
    let Some(line) = refusals::line(context.key()).filter(|_| is_running(control, generation)) else { return 0 };
    let mut head = line.head();
    let mut steps = head.steps(generation, context.tick);
    if !Head::takes(steps) {
        let before = head;
        head = Head::new(generation, context.tick);
        if !line.renew(before, head) {
            return 0;
        }
        steps = 0;
    }
    let left = left.min(context.resolution.ends().saturating_sub(context.now));
    let Some(refusal) = RefusalWord::new(context.key(), reason, steps, left) else { return 0 };
    if let Some((word, before)) = place(line.choices(context.key()), context, steps) {
        line.put(head, word, before, refusal.checked_at(context.tick));
    }
    0
}

/// Returns whether this is the generation of the rules, as a resolution keeps it.
#[inline(always)]
fn is_running(control: &Control, generation: u32) -> bool {
    Head::new(control::generation(control), 0) == Head::new(generation, 0)
}

/// Returns the word for a refusal of this source, and its content. One of so many refusals displaces that of another
/// source: if all took turns, each packet would need a bucket.
#[inline(always)]
fn place<'a>(choices: &'a [Word; CHOICES], context: &Context, steps: u64) -> Option<(&'a Word, u64)> {
    let [first, second, third, fourth] = choices;
    let words = [first.load(), second.load(), third.load(), fourth.load()];
    let [one, two, three, four] = words.map(RefusalWord);
    let is_own = |refusal: RefusalWord| refusal.mask_if_about(context.key()) != 0;
    let is_free = |refusal: RefusalWord| !refusal.is_in_force(steps);
    if is_own(one) {
        return Some((first, one.0));
    }
    if is_own(two) {
        return Some((second, two.0));
    }
    if is_own(three) {
        return Some((third, three.0));
    }
    if is_own(four) {
        return Some((fourth, four.0));
    }
    if is_free(one) {
        return Some((first, one.0));
    }
    if is_free(two) {
        return Some((second, two.0));
    }
    if is_free(three) {
        return Some((third, three.0));
    }
    if is_free(four) {
        return Some((fourth, four.0));
    }
    let draw = context.refusal ^ context.tick;
    if !repeated::draw(draw) {
        return None;
    }
    Some(if draw & 1 == 0 { (first, one.0) } else { (third, three.0) })
}
