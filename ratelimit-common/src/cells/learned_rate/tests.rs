use std::{vec, vec::Vec};

use proptest::prelude::*;

use super::*;

/// Packets per minute at a rate per second.
const fn per_minute(per_second: u64) -> u64 {
    60 * per_second
}

/// The minutes of a host.
#[derive(Default)]
struct Host {
    learned: LearnedRate,
    refused: u64,
    minute: u64,
    /// Whether the minute that ends was before a pause.
    pauses: bool,
}

impl Host {
    /// Unknown sources send so many packets in a minute, as evenly as the rate needs.
    fn minute(&mut self, sent: u64) {
        let passed = sent.min(self.learned.in_force());
        self.end_minute(passed, sent - passed);
    }

    /// Unknown sources send far more than the rate, until the minute ends or a fifth of a second before. The burst is
    /// spent in this minute, and what was refused is counted as far as it is.
    fn saturated_minute(&mut self) {
        let per_minute = self.learned.in_force();
        let passed = per_minute + per_minute / (MINUTE / BURST_TIME);
        self.end_minute(passed, most_refused(per_minute));
    }

    fn end_minute(&mut self, passed: u64, refused: u64) {
        let learned = &mut self.learned;
        self.refused += refused;
        let is_calm = refused <= tolerated(passed);
        if is_calm {
            let day = &mut learned.most[place(learned.calm) as usize];
            *day = most_of_day(*day, learned.calm, counted(learned.calm, learned.settling, passed));
        }
        (learned.calm, learned.restless_of_day, learned.repeats) =
            count_minute(learned.calm, learned.restless_of_day, learned.repeats, is_calm);
        learned.per_minute = next(in_force(learned.per_minute, 0), learned.calm, learned.most());
        let is_pause = std::mem::take(&mut self.pauses);
        (learned.settling, learned.restless) = settle(learned.settling, learned.restless, is_calm, is_pause);
        self.minute += 1;
    }

    /// Unknown sources send what `sent` says of each minute, for so many days.
    fn days(&mut self, days: u64, sent: impl Fn(&Self) -> u64) {
        for _ in 0..days * DAY {
            self.minute(sent(self));
        }
    }

    fn per_second(&self) -> u64 {
        self.learned.in_force() / 60
    }
}

/// Packets per minute of a site whose busiest minute has `most` per second, and the quietest one a tenth of it.
fn site(most: u64) -> impl Fn(&Host) -> u64 {
    move |host| {
        let from_noon = (host.minute % DAY).abs_diff(DAY / 2);
        per_minute(most) / 10 * (10 * DAY / 2 - 9 * from_noon) / (DAY / 2)
    }
}

#[test]
fn a_busy_site_loses_nothing_while_its_rate_is_learned() {
    for (most, learned) in [(20_000, 80_000), (3, 1_000), (600, 2_400), (90_000, 100_000)] {
        let mut host = Host::default();
        host.days(1, site(most));
        assert_eq!((host.refused, host.per_second()), (0, learned), "{most}");
        host.days(20, site(most));
        assert_eq!((host.refused, host.per_second()), (0, (4 * most).max(1_000)), "{most}");
        assert_eq!(host.learned.days(), 8);
    }
}

#[test]
fn a_site_may_have_one_busy_day_in_a_week() {
    let mut host = Host::default();
    host.days(60, |host| site(if (host.minute / DAY).is_multiple_of(7) { 10_000 } else { 500 })(host));
    assert_eq!((host.refused, host.per_second()), (0, 40_000));
}

#[test]
fn a_flood_before_anything_is_learned_teaches_nothing() {
    let mut host = Host::default();
    host.days(30, |_| per_minute(10_000_000));
    assert_eq!((host.per_second(), host.learned.is_learning()), (100_000, true));
    host.days(1, site(500));
    assert_eq!(host.per_second(), 2_000);
}

/// A flood teaches nothing for 30 days, neither at every moment nor beside calm minutes of the site.
#[test]
fn minutes_of_which_a_flood_spends_the_rate_teach_nothing() {
    for calm in [false, true] {
        let mut host = Host::default();
        host.days(3, site(250));
        for minute in 0..30 * DAY {
            if calm && minute % 2 == 0 {
                host.minute(site(250)(&host));
            } else {
                host.saturated_minute();
            }
            assert!(host.learned.per_minute <= per_minute(1_000), "minute {minute}");
        }
        host.days(1, site(250));
        assert_eq!(host.per_second(), 1_000);
    }
}

#[test]
fn a_flood_below_the_first_rate_teaches_no_more_than_this_rate() {
    let mut host = Host::default();
    host.days(1, |_| per_minute(99_000));
    assert_eq!(host.per_second(), 100_000);
    host.days(8, site(500));
    assert_eq!(host.per_second(), 2_000);
}

/// Ten minutes of each day, the flood gets more. They teach nothing.
#[test]
fn no_flood_makes_the_host_forget() {
    let mut host = Host::default();
    host.days(3, site(5_000));
    let mut rates = Vec::new();
    for _ in 0..60 * DAY {
        host.minute(per_minute(10_000_000));
        rates.push(host.per_second());
    }
    host.days(1, site(5_000));
    assert_eq!(host.per_second(), 20_000);
    let more = rates.iter().filter(|rate| **rate == 100_000).count() as u64;
    assert_eq!(
        (more, rates.iter().filter(|rate| **rate == 20_000).count() as u64),
        (59 * SETTLING + 1, 60 * DAY - more)
    );
}

/// A flood in the busy hours of each day, for sixty days. Only the four quietest hours of the site are calm.
#[test]
fn a_flood_in_the_busy_hours_makes_the_host_forget_nothing() {
    let busy = site(20_000);
    for quiet_minutes in [4 * 60, DAY - MOST_RESTLESS - 2] {
        let mut host = Host::default();
        host.days(3, &busy);
        for minute in 0..60 * DAY {
            if (minute % DAY).abs_diff(DAY / 2) < (DAY - quiet_minutes).div_ceil(2) {
                host.saturated_minute();
            } else {
                host.minute(busy(&host));
            }
            assert_eq!(host.learned.per_minute, per_minute(80_000), "{quiet_minutes}: minute {minute}");
        }
        host.refused = 0;
        host.days(10, &busy);
        assert_eq!((host.refused, host.per_second()), (0, 80_000), "{quiet_minutes}");
    }
}

/// The rate that one busy minute has taught is forgotten, whatever a flood does in each day.
#[test]
fn no_flood_keeps_a_raised_rate_for_ever() {
    let mut host = Host::default();
    host.days(3, site(250));
    host.minute(per_minute(1_000));
    host.days(3, site(250));
    assert_eq!(host.per_second(), 4_000);
    // The longest time: eight days, each of which begins again eight times.
    for minute in 0..75 * DAY {
        if minute % DAY < MOST_RESTLESS + 2 { host.saturated_minute() } else { host.minute(site(250)(&host)) }
    }
    assert_eq!(host.per_second(), 1_000);
}

/// What a day may forget: its busiest minutes, if a flood takes a quarter of an hour of each day.
#[test]
fn a_flood_of_a_quarter_of_an_hour_each_day_hides_no_more_than_this_time() {
    let busy = site(20_000);
    let mut host = Host::default();
    host.days(3, &busy);
    for minute in 0..60 * DAY {
        if (minute % DAY).abs_diff(DAY / 2) <= MOST_RESTLESS / 2 {
            host.saturated_minute();
        } else {
            host.minute(busy(&host));
        }
    }
    assert!((79_000..80_000).contains(&host.per_second()), "{}", host.per_second());
}

/// A site whose clients send far more than its newcomers. They are known as long as they send, and become known again if
/// the rate is not spent for a minute.
#[test]
fn clients_of_long_standing_become_known_again_after_a_pause_or_a_flood() {
    let (clients, newcomers) = (per_minute(40_000), per_minute(100));
    let mut host = Host::default();
    host.days(3, |_| newcomers);
    assert_eq!(host.per_second(), 1_000);
    host.pauses = true;
    host.minute(newcomers);
    // Everybody is new.
    let refused = host.refused;
    host.minute(clients + newcomers);
    assert_eq!((host.refused, host.per_second()), (refused, 100_000));
    for _ in 1..SETTLING {
        host.minute(newcomers);
    }
    assert_eq!((host.per_second(), host.learned.most()), (1_000, newcomers));

    // Without a pause, as when only the clients were cut off.
    let mut minutes = 0;
    while host.learned.settling == 0 {
        host.minute(clients + newcomers);
        minutes += 1;
    }
    assert_eq!((minutes, host.per_second()), (DAY, 100_000));
}

#[test]
fn minutes_of_settling_neither_teach_nor_stop_the_days() {
    let mut host = Host::default();
    host.days(2, site(250));
    // The minute before the first pause is one like any other.
    host.pauses = true;
    host.minute(per_minute(250));
    let calm = host.learned.calm;
    for _ in 0..8 * DAY {
        host.pauses = true;
        host.minute(per_minute(90_000));
    }
    assert_eq!((host.learned.calm, host.per_second()), (calm + 8 * DAY, 100_000));
    assert_eq!(in_force(host.learned.per_minute, 0) / 60, 1_000);
}

/// The attacker knows the rate at every moment, and sends so much that nothing is refused.
#[test]
fn an_attacker_on_a_slow_ramp_at_most_doubles_the_rate_in_any_24_hours() {
    let mut host = Host::default();
    host.days(2, site(250));
    assert_eq!(host.per_second(), 1_000);
    let mut rates = vec![host.learned.in_force()];
    for minute in 0..10 * DAY {
        // A few packets too many do not matter.
        let more = if minute.is_multiple_of(2) { tolerated(host.learned.in_force()) } else { 0 };
        host.minute(host.learned.in_force() + more);
        rates.push(host.learned.in_force());
    }
    assert_eq!(host.learned.calm, 12 * DAY);
    for day in rates.windows(DAY as usize + 1) {
        assert!(day[DAY as usize] < 2 * day[0]);
    }
    let after: Vec<_> = (0..=10).map(|day| rates[day * DAY as usize] / 60).collect();
    assert!(after[1] < 2_000 && after[10] < 1_024_000, "{after:?}");
    // So the bound is close, and a site that grows is not held back for longer than necessary.
    assert!(after[10] > 900_000, "{after:?}");
    host.days(8, site(250));
    assert_eq!(host.per_second(), 1_000);
}

/// New visitors come in bursts, so that the busiest minutes lose some packets.
#[test]
fn a_site_that_loses_packets_in_bursts_keeps_its_rate() {
    let mut host = Host::default();
    for minute in 0..40 * DAY {
        let sent = if minute % DAY == DAY / 2 { per_minute(1_000) } else { per_minute(100) };
        let refused = if minute < DAY || sent < per_minute(1_000) { 0 } else { sent / 20 };
        host.end_minute(sent - refused, refused);
    }
    assert_eq!(host.per_second(), 4 * 950);
}

/// One minute just below the rate is enough for a target of four times the rate. The rate still rises slowly.
#[test]
fn one_busy_minute_does_not_raise_the_rate_at_once() {
    let mut host = Host::default();
    host.days(2, site(250));
    host.minute(per_minute(1_000));
    assert_eq!((host.per_second(), target(host.learned.most())), (1_000, per_minute(4_000)));
    host.days(1, |_| 0);
    assert!((1_900..2_000).contains(&host.per_second()), "{}", host.per_second());
    host.days(8, |_| 0);
    assert_eq!(host.per_second(), 1_000);
}

#[test]
fn a_minute_ends_after_sixty_seconds_and_not_by_a_clock_that_is_behind() {
    assert!(!has_ended(5, 5 + MINUTE - 1) && has_ended(5, 5 + MINUTE));
    assert!(!has_ended(5 + MINUTE, 5) && has_ended(5, u64::MAX / 2) && has_ended(0, 1));
    assert!(is_pause(0, 1) && is_pause(5, 5 + PAUSE) && !is_pause(5, 4 + PAUSE));
}

#[test]
fn what_a_program_cannot_have_learned_does_not_last() {
    let day = LearnedRate { restless_of_day: 4, repeats: 5, ..LearnedRate::default() };
    let before = LearnedRate { per_minute: LEAST, calm: 9, most: [10; DAYS], ..day };
    let learned = LearnedRate { begun: 7, passed: 8, refused: 1, settling: 2, restless: 3, ..before };
    assert_eq!(learned.lasting(), Some(before));
    assert!(LearnedRate::default().lasting().is_some());
    for wrong in [
        LearnedRate { per_minute: LEAST - 1, ..learned },
        LearnedRate { per_minute: MOST + 1, ..learned },
        LearnedRate { calm: u64::MAX, ..learned },
        LearnedRate { repeats: MOST_REPEATS + 1, ..learned },
        LearnedRate { most: [0, 0, 0, 0, 0, 0, 0, MOST + 1], ..learned },
    ] {
        assert_eq!(wrong.lasting(), None);
    }
}

proptest! {
    /// A batch costs what its packets cost, and less than the time for which a CPU remembers a refusal.
    #[test]
    fn batches_add_up_to_the_rate(per_minute in LEAST..=MOST) {
        let batch = batch(per_minute);
        let cost = cost(per_minute, batch);
        prop_assert!(cost < MOST_COST && MOST_COST < BURST);
        let (sent, allowed) = (u128::from(gcra::units(MINUTE)) * u128::from(batch) / u128::from(cost), per_minute);
        prop_assert!(sent >= u128::from(allowed) && sent <= u128::from(allowed) * 1_000_001 / 1_000_000 + 1);
    }

    #[test]
    fn the_rate_stays_within_its_bounds(sent in prop::collection::vec(0..2 * MOST, 0..300), calm in 0..20 * DAY, from in LEAST..=MOST) {
        let learned = LearnedRate { per_minute: from, calm, ..LearnedRate::default() };
        let mut host = Host { learned, ..Host::default() };
        for sent in sent {
            let before = host.learned.in_force();
            host.minute(sent);
            let after = host.learned.in_force();
            prop_assert!((LEAST..=MOST).contains(&after));
            prop_assert!(after <= before + before / RISE || after == FIRST);
            prop_assert!(host.learned.settling <= SETTLING && host.learned.restless < RESTLESS);
            prop_assert!(host.learned.lasting().is_some());
        }
    }
}
