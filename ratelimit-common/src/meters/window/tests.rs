extern crate std;

use std::{vec, vec::Vec};

use crate::meters::window::*;
use proptest::prelude::*;

/// What was admitted, by the number of its window: the definition, with nothing packed and nothing cut off.
#[derive(Default)]
struct Counted(Vec<(u64, u64)>);

impl Counted {
    fn of(&self, number: u64) -> u128 {
        self.0.iter().filter(|(of, _)| *of == number).map(|(_, cost)| u128::from(*cost)).sum()
    }

    fn fixed(&mut self, window: &Window, now: u64, cost: u64) -> bool {
        let number = now / window.length;
        let counted = self.of(number);
        let fits = counted + u128::from(cost) <= u128::from(window.limit) || counted == 0;
        if fits {
            self.0.push((number, cost));
        }
        fits
    }

    fn sliding(&mut self, window: &Window, now: u64, cost: u64) -> bool {
        let (number, left) = (now / window.length, window.length - now % window.length);
        let limit = u128::from(window.limit);
        // What is larger than the limit weighs as the limit.
        let before = number.checked_sub(1).map_or(0, |before| self.of(before)).min(limit);
        let current = self.of(number);
        let weighted = before * u128::from(left) + (current + u128::from(cost)) * u128::from(window.length);
        let fits = weighted <= limit * u128::from(window.length) || before == 0 && current == 0;
        if fits {
            self.0.push((number, cost));
        }
        fits
    }
}

/// A window, when some packets come after each other, and what they cost.
fn schedule() -> impl Strategy<Value = (Window, u64, Vec<(u64, u64)>)> {
    let length = prop_oneof![1u64..100, 1_000_000u64..100_000_000_000, Just(86_400_000_000_000)];
    let limit = prop_oneof![1u64..20, 1u64..10_000];
    (length, limit, 0u64..1 << 55).prop_flat_map(|(length, limit, start)| {
        let gap = prop_oneof![4 => Just(0), 4 => 0..=length / limit.min(length), 2 => 0..=length, 1 => 0..=length * 3];
        let cost = prop_oneof![6 => Just(1u64), 2 => 1..=limit, 1 => 1..=1u64 << 16];
        let packets = prop::collection::vec((gap, cost), 1..80);
        packets.prop_map(move |packets| (Window::new(limit, length, 0), start, packets))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_fixed_window_is_its_definition((window, start, packets) in schedule()) {
        let (mut state, mut now, mut counted) = (0, start, Counted::default());
        for (gap, cost) in packets {
            now += gap;
            let next = window.ask_fixed(state, now, cost);
            prop_assert_eq!(next.is_some(), counted.fixed(&window, now, cost));
            if next.is_none() {
                let until = now + window.wait_fixed(now);
                // Not before the next window, and in that.
                prop_assert!(window.ask_fixed(state, until - 1, cost).is_none());
                prop_assert!(window.ask_fixed(state, until, cost).is_some());
            }
            state = next.unwrap_or(state);
            prop_assert_eq!(kind(state), FIXED);
        }
    }

    #[test]
    fn a_sliding_window_is_its_definition((window, start, packets) in schedule()) {
        let (mut state, mut now, mut counted) = (0, start, Counted::default());
        for (gap, cost) in packets {
            now += gap;
            let next = window.ask_sliding(state, now, cost);
            prop_assert_eq!(next.is_some(), counted.sliding(&window, now, cost));
            if next.is_none() {
                let until = now + window.wait_sliding(state, now, cost);
                prop_assert!(until > now && window.ask_sliding(state, until - 1, cost).is_none());
                prop_assert!(window.ask_sliding(state, until, cost).is_some());
            }
            state = next.unwrap_or(state);
            prop_assert_eq!(kind(state), SLIDING);
        }
    }

    /// Whatever another algorithm, another limit or chance has left, it is read as nothing, or refuses for two windows
    /// at most.
    #[test]
    fn no_state_refuses_for_long(state: u64, (window, now, _) in schedule()) {
        let refusal = window.ask_fixed(state, now, 1).map_or(window.wait_fixed(now), |_| 0);
        prop_assert!(refusal <= window.length);
        prop_assert!(kind(state) == FIXED || window.ask_fixed(state, now, 1).is_some());
        let refusal = window.ask_sliding(state, now, 1).map_or(window.wait_sliding(state, now, 1), |_| 0);
        prop_assert!(refusal <= 2 * window.length);
        prop_assert!(kind(state) == SLIDING || window.ask_sliding(state, now, 1).is_some());
    }

    #[test]
    fn what_is_given_back_is_there_again((window, start, packets) in schedule()) {
        for ask in [Window::ask_fixed, Window::ask_sliding] {
            let (mut state, mut now) = (0, start);
            for (gap, cost) in &packets {
                now += gap;
                if let Some(next) = ask(&window, state, now, *cost) {
                    let back = window.refund(next, now, *cost).unwrap();
                    for more in [1, *cost, window.limit] {
                        prop_assert_eq!(ask(&window, back, now, more).is_some(), ask(&window, state, now, more).is_some());
                    }
                    state = next;
                }
            }
        }
    }
}

/// A CPU that has read the clock a moment earlier finds the next window begun, and must not begin the one before anew.
#[test]
fn at_the_edge_of_windows_the_earlier_clock_mints_nothing() {
    let window = Window::new(3, 1_000, 0);
    for ask in [Window::ask_fixed, Window::ask_sliding] {
        let mut state = 0;
        for (time, passes) in [(5_000, true), (4_999, true), (5_000, true), (4_999, false), (5_000, false)] {
            let next = ask(&window, state, time, 1);
            assert_eq!(next.is_some(), passes, "{time}");
            state = next.unwrap_or(state);
        }
    }
}

#[test]
fn windows_begin_where_their_phase_says() {
    let window = Window::new(1, 60, 50);
    let places: Vec<_> = [0, 9, 10, 69, 70].map(|now| window.place(now)).to_vec();
    assert_eq!(places, vec![(0, 50), (0, 59), (1, 0), (1, 59), (2, 0)]);
}
