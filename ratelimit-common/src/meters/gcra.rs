//! The token bucket as one `u64`: the generic cell rate algorithm.
//!
//! The state is the *theoretical arrival time*: the moment at which everything admitted will have drained. The distance
//! from now to that moment is the source's *debt*. A packet is admitted while debt plus cost fits the burst. So a
//! bucket of `burst` tokens that fills at `rate` is a debt of at most `burst / rate`, and refilling needs no timer. One
//! compare-and-exchange is exact on any number of CPUs.
//!
//! Times are in [`Units`] of 2⁻¹⁰ ns, so 64 bytes at 400 Gbit/s (1.28 ns) are measured within 0.04 %. Units wrap after
//! 2⁵⁴ ns (208 days), so times are compared by their distance. Up to [`MAX_DEBT`] (52 days) ahead is debt, and
//! everything else is past. A source that returns after 160 to 208 days of complete silence can find its burst spent
//! once.

/// A time or a duration in units of 2⁻¹⁰ ns.
pub type Units = u64;

/// Binary digits of a nanosecond's fraction.
pub const FRACTION_BITS: u32 = 10;

/// Longest debt that differs from a time in the past: 2⁵² ns.
pub const MAX_DEBT: Units = 1 << 62;

/// Amount by which a debt may exceed the ceiling before it counts as another policy's: 1 ms. CPUs do not read the clock
/// in the order in which they change a state, so a new debt can look larger than it is.
pub const SLACK: Units = units(1_000_000);

/// Answer of a bucket to a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The packet is admitted; the state to store.
    Admit(u64),
    /// The packet is refused; the state stays.
    Refuse,
    /// The packet is refused, and the debt is larger than this policy can create, so another policy created it. The
    /// state to store, so that the source waits no longer than under this policy.
    Cap(u64),
}

/// Returns nanoseconds as units.
#[inline(always)]
#[must_use]
pub const fn units(nanoseconds: u64) -> Units {
    nanoseconds << FRACTION_BITS
}

/// Returns the debt of a state at `now`.
#[inline(always)]
#[must_use]
pub const fn debt(state: u64, now: Units) -> Units {
    let ahead = state.wrapping_sub(now);
    if ahead <= MAX_DEBT { ahead } else { 0 }
}

/// Asks the bucket with `state` for `cost` at `now`.
///
/// `allowed` is the debt that the burst allows. A packet that costs more than the burst passes if nothing is owed, and
/// is paid in full before the next one. Otherwise it would never pass. `ceiling` is the largest debt that this policy
/// can create.
#[inline(always)]
#[must_use]
pub const fn ask(state: u64, now: Units, cost: Units, allowed: Units, ceiling: Units) -> Answer {
    ask_owing(debt(state, now), now, cost, allowed, ceiling)
}

/// Asks a bucket with this debt.
#[inline(always)]
#[must_use]
pub const fn ask_owing(debt: Units, now: Units, cost: Units, allowed: Units, ceiling: Units) -> Answer {
    if debt == 0 || debt + cost <= allowed {
        return Answer::Admit(now.wrapping_add(debt + cost));
    }
    if debt > ceiling + SLACK { Answer::Cap(now.wrapping_add(ceiling)) } else { Answer::Refuse }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compares every verdict with the textbook's bucket, which counts tokens.
        #[test]
        fn agrees_with_a_bucket_that_counts_tokens(
            start: u64, cost in 1u64..1 << 40, burst in 1u64..1 << 20, gaps in prop::collection::vec(0u64..1 << 44, 1..200),
        ) {
            let allowed = cost * burst;
            // Tokens in units of time, so that the model divides nothing.
            let (mut state, mut now, mut tokens) = (start, start, allowed);
            for gap in gaps {
                now = now.wrapping_add(gap);
                tokens = allowed.min(tokens + gap);
                match ask(state, now, cost, allowed, allowed) {
                    Answer::Admit(next) => {
                        prop_assert!(tokens >= cost);
                        tokens -= cost;
                        state = next;
                    }
                    answer => {
                        prop_assert!(tokens < cost);
                        prop_assert_eq!(answer, Answer::Refuse);
                    }
                }
            }
        }

        /// After any change of policy a source waits no longer than the new policy's burst.
        #[test]
        fn a_larger_debt_is_capped(now: u64, owed in 0..MAX_DEBT - SLACK, cost in 1u64..1 << 30, burst in 1u64..1 << 20) {
            let allowed = cost * burst;
            let state = now.wrapping_add(owed);
            let next = match ask(state, now, cost, allowed, allowed) {
                Answer::Admit(next) | Answer::Cap(next) => next,
                Answer::Refuse => state,
            };
            prop_assert!(debt(next, now) <= allowed + SLACK);
        }

        #[test]
        fn a_packet_larger_than_the_burst_is_paid_in_full(now: u64, cost in 2u64..1 << 50, allowed in 1u64..1 << 30) {
            let Answer::Admit(state) = ask(now, now, cost, allowed, cost) else {
                return Err(TestCaseError::fail("an idle bucket admits"));
            };
            prop_assert_eq!(debt(state, now), cost);
        }
    }

    #[test]
    fn a_state_from_the_past_owes_nothing_whatever_the_clock_reads() {
        for now in [0, 1, MAX_DEBT, u64::MAX / 2, u64::MAX] {
            assert_eq!(debt(now.wrapping_sub(1), now), 0);
            assert_eq!(debt(now.wrapping_sub(units(86_400_000_000_000)), now), 0);
            assert_eq!(debt(now, now), 0);
        }
    }
}
