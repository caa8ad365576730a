extern crate std;

use std::{vec, vec::Vec};

use crate::meters::stages::*;
use crate::{
    limits::limit::{Limit, Rate, SECOND},
    meters::gcra,
};
use proptest::prelude::*;

#[test]
fn a_level_is_higher_than_one_that_owes_less_however_old_that_is() {
    let (now, most) = (gcra::units(1_000_000), 1 << 40);
    let owes = |debt: Units| now.wrapping_add(debt);
    assert!(is_higher(owes(5), owes(4), now, most) && is_higher(owes(5), 0, now, most));
    for old in
        [0, owes(0), now.wrapping_sub(1), now.wrapping_sub(1 << 62), now.wrapping_sub(3 << 62), owes(2 * most + 2)]
    {
        assert!(!is_higher(old, owes(1), now, most) && is_higher(owes(1), old, now, most), "{old}");
    }
}

/// A limit of packets or of bytes, and what each of some packets costs and how long after the one before it comes.
#[derive(Debug, Clone)]
struct Schedule {
    meter: Meter,
    start: Units,
    packets: Vec<(Units, Units)>,
    /// Before which of them the own bucket is evicted.
    evictions: Vec<bool>,
    /// At which of them the budget admits no new bucket.
    spent: Vec<bool>,
}

fn meter() -> impl Strategy<Value = (Meter, bool)> {
    (1u64..1_000_000, prop_oneof![1u64..4, 1u64..40, 40u64..200], any::<bool>()).prop_filter_map(
        "a limit that cannot be",
        |(amount, burst, of_bytes)| {
            let rate = Some(Rate { amount, period: SECOND });
            let (packets, bytes) = if of_bytes { (None, rate) } else { (rate, None) };
            let policy = Limit { packets, bytes, burst: Some(burst), ..Limit::default() }.policy().ok()?;
            Some((if of_bytes { policy.second } else { policy.packets }, of_bytes))
        },
    )
}

fn schedule() -> impl Strategy<Value = Schedule> {
    (meter(), (0u64..1 << 54).prop_map(gcra::units), 1usize..120).prop_flat_map(|((meter, of_bytes), start, count)| {
        let typical = meter.cost_of(if of_bytes { 700 } else { 1 });
        let gap = prop_oneof![3 => Just(0), 4 => 0..=typical, 2 => typical..=typical * 3, 1 => 0..=meter.burst * 2];
        // Some are longer than many a burst.
        let length = prop_oneof![8 => 60u32..1_514, 1 => 1_514u32..65_536];
        let cost = length.prop_map(move |length| meter.cost_of(if of_bytes { length } else { 1 }));
        // As the clock: times are even.
        let packets = prop::collection::vec((gap.prop_map(|gap| gap & !1), cost), count);
        let times = move |share| prop::collection::vec(prop::bool::weighted(share), count);
        (packets, times(0.1), times(0.5)).prop_map(move |(packets, evictions, spent)| Schedule {
            meter,
            start,
            packets,
            evictions,
            spent,
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn alone_in_its_cell_a_source_has_one_token_bucket(
        Schedule { meter, start, packets, evictions, spent } in schedule(),
    ) {
        // Whatever time it is: cells begin at zero.
        let mut stages = Stages { level: 0, own: None };
        let (mut plain, mut now) = (start, start);
        prop_assume!(level_debt(0, start, 4 * largest_debt(&meter)) == 0);
        for (((gap, cost), is_evicted), is_spent) in packets.into_iter().zip(evictions).zip(spent) {
            now = now.wrapping_add(gap);
            if is_evicted {
                stages.own = None;
            }
            let (before, prior) = (stages, plain);
            let expected = match gcra::ask(plain, now, cost, meter.burst, meter.ceiling) {
                Answer::Admit(next) => {
                    plain = next;
                    true
                }
                Answer::Refuse => false,
                Answer::Cap(_) => return Err(TestCaseError::fail("no debt is larger than the limit makes")),
            };
            let is_admitted = match is_spent && stages.own.is_none() {
                true => stages.decide_without_bucket(now, cost, &meter),
                false => stages.decide(now, cost, &meter),
            };
            // Only a packet that costs more than the burst needs a bucket.
            if is_spent && stages.own.is_none() && cost > meter.burst {
                prop_assert!(!is_admitted);
                plain = prior;
                continue;
            }
            prop_assert_eq!(is_admitted, expected, "{:?} of {:?}", before, meter);
            // The level is the whole debt, and the own bucket has what is above the cell's part.
            let debt = gcra::debt(plain, now);
            prop_assert_eq!(level_debt(stages.level, now, largest_debt(&meter)), debt);
            if let Some(own) = stages.own {
                prop_assert_eq!(gcra::debt(own, now), debt.saturating_sub(meter.cell_share));
                prop_assert_eq!(owed(debt, gcra::debt(own, now), &meter), debt);
            }
        }
    }

    /// In one cell with all others, none is admitted more than its burst and its rate, and whoever stays below its rate
    /// is refused at most while its bucket is new.
    #[test]
    fn in_a_crowded_cell_every_bound_holds_and_who_stays_below_its_rate_keeps_it(
        (meter, of_bytes) in meter(), start in (0u64..1 << 54).prop_map(gcra::units), offenders in 1usize..6, rounds in 20u64..200, evict: bool,
    ) {
        let cost = meter.cost_of(if of_bytes { 1_514 } else { 1 });
        let mut level = start;
        let mut own = vec![None; offenders + 1];
        let (mut now, mut admitted) = (start, vec![0u64; offenders + 1]);
        let mut refused = 0;
        // What each would be admitted of the same packets if it had the rest of the burst only, and nobody beside it.
        let rest = meter.burst - meter.cell_share;
        let (mut plain, mut least) = (start, 0u64);
        for round in 0..rounds {
            now = now.wrapping_add((cost + cost / 8) & !1);
            for source in 0..=offenders {
                // The first source sends a packet a round, which is below its rate; the others send four.
                for _ in 0..if source == 0 { 1 } else { 4 } {
                    if let (1, Answer::Admit(next)) = (source, gcra::ask(plain, now, cost, rest, rest)) {
                        (plain, least) = (next, least + 1);
                    }
                    let mut stages = Stages { level, own: own[source] };
                    let is_admitted = stages.decide(now, cost, &meter);
                    (level, own[source]) = (stages.level, stages.own);
                    admitted[source] += u64::from(is_admitted);
                    refused += u64::from(source == 0 && !is_admitted && round > 0);
                }
                let most = (meter.burst + now.wrapping_sub(start)) / cost + 1;
                prop_assert!(admitted[source] <= most, "source {}: {} of {}", source, admitted[source], most);
            }
            if evict && round % 7 == 3 {
                own[offenders] = None;
            }
        }
        // A bucket that begins with the debt of others forgives it within a burst.
        let burst = meter.burst / cost + 1;
        prop_assert!(refused <= burst, "refused {} times", refused);
        if !evict {
            for count in &admitted[1..] {
                prop_assert!(count + burst >= least, "{} of {}", count, least);
            }
        }
    }

    /// Until then every packet of this cost is refused, and then it is not.
    #[test]
    fn a_refusal_holds_as_long_as_it_says(
        (meter, of_bytes) in meter(), level in 0u64..1 << 50, own in 0u64..1 << 50, length in 60u32..10_000,
        now in (0u64..1 << 54).prop_map(gcra::units), at in 0.0..1.0f64,
    ) {
        let cost = meter.cost_of(if of_bytes { length } else { 1 });
        let most = meter.ceiling * 2;
        // Whatever the own bucket has admitted is in the level too.
        let level = (level % most) & !1;
        let own = (own % meter.ceiling.min(level + 1)) & !1;
        let stages = Stages { level: now.wrapping_add(level), own: Some(now.wrapping_add(own)) };
        let decide = |time: Units| { let mut copy = stages; copy.decide(time, cost, &meter) };
        if !decide(now) {
            let wait = wait(level, own, cost, &meter);
            let last = wait.saturating_sub(1) & !1;
            prop_assert!(!decide(now.wrapping_add((last as f64 * at) as u64 & !1)));
            prop_assert!(!decide(now.wrapping_add(last)));
            prop_assert!(decide(now.wrapping_add(last + 4)), "{} {:?} {}", wait, stages, cost);
        }
    }
}
