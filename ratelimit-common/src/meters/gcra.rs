//! The token bucket as one `u64`: the generic cell rate algorithm.
//!
//! The state is the *theoretical arrival time*: the moment at which all that was admitted will have drained. What lies
//! between now and then is the source's *debt*. A packet is admitted while its debt has room for its cost, so a bucket
//! of `burst` tokens that fills at `rate` is a debt of at most `burst / rate`, and refilling needs no timer.
//!
//! Times are in [`Units`] of 2⁻¹⁰ ns, which a packet of 64 bytes at 400 Gbit/s (1.28 ns) still measures within 0.04 %. They
//! wrap after 2⁵⁴ ns (208 days), so times are only ever compared by their distance. A debt is at most [`MAX_DEBT`]
//! (52 days); a state further ahead than that is an old one that time has gone around.

/// A time or a duration in units of 2⁻¹⁰ ns.
pub type Units = u64;

/// Binary digits of a nanosecond's fraction.
pub const FRACTION_BITS: u32 = 10;

/// The longest debt that can be told from a time in the past: 2⁵² ns.
pub const MAX_DEBT: Units = 1 << 62;

/// How far a debt may exceed the ceiling before it counts as another policy's: 1 ms. CPUs do not read the clock in the order in which
/// they change a state, so a debt that has just been made can look larger than it is.
pub const SLACK: Units = units(1_000_000);

/// What a bucket says to a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Admitted; the state to store.
    Admit(u64),
    /// Refused; the state stands.
    Refuse,
    /// Refused, and the debt exceeds what this policy can have made: another policy's, larger. The state to store, so that the
    /// source waits no longer than this policy would make it.
    Cap(u64),
}

/// The clock's nanoseconds as units.
#[inline(always)]
#[must_use]
pub const fn units(nanoseconds: u64) -> Units {
    nanoseconds << FRACTION_BITS
}

/// What a state still owes at `now`.
#[inline(always)]
#[must_use]
pub const fn debt(state: u64, now: Units) -> Units {
    let ahead = state.wrapping_sub(now);
    if ahead <= MAX_DEBT { ahead } else { 0 }
}

/// Asks the bucket with `state` for `cost` at `now`.
///
/// `capacity` is the burst. A packet that costs more than the whole burst passes when nothing is owed, and is paid for in
/// full before the next one: otherwise it would never pass. `ceiling` is the largest debt that this policy can make.
#[inline(always)]
#[must_use]
pub const fn ask(state: u64, now: Units, cost: Units, capacity: Units, ceiling: Units) -> Answer {
    ask_owing(debt(state, now), now, cost, capacity, ceiling)
}

/// The same for a bucket that owes `debt`.
#[inline(always)]
#[must_use]
pub const fn ask_owing(debt: Units, now: Units, cost: Units, capacity: Units, ceiling: Units) -> Answer {
    if debt == 0 || debt + cost <= capacity {
        return Answer::Admit(now.wrapping_add(debt + cost));
    }
    if debt > ceiling + SLACK { Answer::Cap(now.wrapping_add(ceiling)) } else { Answer::Refuse }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against the textbook's bucket, which counts tokens: the same verdict on every packet.
        #[test]
        fn agrees_with_a_bucket_that_counts_tokens(
            start: u64, cost in 1u64..1 << 40, burst in 1u64..1 << 20, gaps in prop::collection::vec(0u64..1 << 44, 1..200),
        ) {
            let capacity = cost * burst;
            // Tokens in units of time, so that the model divides nothing.
            let (mut state, mut now, mut tokens) = (start, start, capacity);
            for gap in gaps {
                now = now.wrapping_add(gap);
                tokens = capacity.min(tokens + gap);
                match ask(state, now, cost, capacity, capacity) {
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
            let capacity = cost * burst;
            let state = now.wrapping_add(owed);
            let next = match ask(state, now, cost, capacity, capacity) {
                Answer::Admit(next) | Answer::Cap(next) => next,
                Answer::Refuse => state,
            };
            prop_assert!(debt(next, now) <= capacity + SLACK);
        }

        #[test]
        fn a_packet_larger_than_the_burst_is_paid_in_full(now: u64, cost in 2u64..1 << 50, capacity in 1u64..1 << 30) {
            let Answer::Admit(state) = ask(now, now, cost, capacity, cost) else {
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
