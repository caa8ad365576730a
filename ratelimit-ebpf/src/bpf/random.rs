//! Random draws without a helper call.

/// Odd number whose multiples look random (the golden ratio's fraction).
const SCATTER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns 16 bits for a member of a group in this step. They are spread evenly over the members in each step, and over
/// the steps for each member. So a member that is among the lowest hundredth in one step is not for the next dozens of
/// steps.
#[inline(always)]
#[must_use]
pub const fn turn(member: u64, step: u64) -> u64 {
    // Steps of the golden ratio come back to a small interval as rarely as any.
    member.wrapping_mul(SCATTER).wrapping_add(step.wrapping_mul(SCATTER)) >> 48
}

/// Returns whether one of `count` draws (a power of two) falls on this number. Senders must not be able to predict the
/// number's bits.
#[inline(always)]
#[must_use]
pub const fn one_of(count: u64, number: u64) -> bool {
    number.wrapping_mul(SCATTER) >> (64 - count.trailing_zeros()) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_each_step_every_part_of_the_members_has_its_turn_and_no_member_soon_again() {
        for part in [2, 20, 200] {
            let is_low = |member: u64, step: u64| turn(member << 32, step) < (1 << 16) / part;
            let mut least = u64::MAX;
            for member in 0..2_000 {
                let turns = (0..10 * part).filter(|step| is_low(member, *step)).count() as u64;
                assert!((8..=12).contains(&turns), "{turns} turns");
                let first = (0..).find(|step| is_low(member, *step)).unwrap_or(0);
                least = least.min((1..).find(|gap| is_low(member, first + gap)).unwrap_or(0));
            }
            assert!(least >= part * 3 / 5, "{least} steps between two turns of one in {part}");
            for step in 0..50 {
                let members = (0..100 * part).filter(|member| is_low(*member, step)).count();
                assert!((80..=120).contains(&members), "{members} of one in {part}");
            }
        }
    }
}
