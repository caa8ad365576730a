//! The program learns the rate of unknown sources, over days of an injected clock.

use ratelimit_common::{cells::learned_rate::LearnedRate, limits::limit::SECOND, maps::cpu::Cpu, reason::Reason};
use ratelimit_dataplane::program::loader::LEARNED;
use ratelimit_tests::{Bytecode, Clock, Order, Sources, Walker};

use super::{super::stay_on_one_cpu, flood, limited};

/// Calm minutes of a day.
const DAY: usize = 1_440;

/// What the rate is by its definition.
struct Definition {
    /// Packets of each calm minute, by days. The last day has not ended.
    days: Vec<Vec<u64>>,
    /// Minutes of this day that were not calm, and how often it has begun again.
    others: u64,
    repeats: u64,
    per_minute: u64,
    /// Minutes that are left in which sources become known again.
    settling: u64,
}

impl Definition {
    fn end_minute(&mut self, passed: u64, refused: u64, after: u64) {
        let is_first = self.days.len() == 1;
        let day = self.days.last_mut().unwrap();
        if refused * 16 <= passed {
            // During the first day, at most a quarter of the first rate counts.
            day.push(if is_first { passed.min(1_500_000) } else { passed * u64::from(self.settling == 0) });
        } else if !day.is_empty() {
            self.others += 1;
        }
        if day.len() == DAY {
            if self.others > 15 && self.repeats < 8 {
                // The day begins again.
                *day = vec![day.iter().copied().max().unwrap()];
                self.repeats += 1;
            } else {
                self.days.push(Vec::new());
                self.repeats = 0;
            }
            self.others = 0;
        }
        self.settling = if after >= 600 * SECOND { 10 } else { self.settling.saturating_sub(1) };
        if self.days.len() > 1 {
            let target = (4 * 60 * self.most().div_ceil(60)).clamp(60_000, 6_000_000_000);
            self.per_minute = target.min(self.per_minute + self.per_minute / 2_080);
        }
    }

    fn in_force(&self) -> u64 {
        if self.settling == 0 { self.per_minute } else { self.per_minute.max(6_000_000) }
    }

    /// Returns the most of a minute of this day and of the seven days before it.
    fn most(&self) -> u64 {
        self.days.iter().rev().filter(|day| !day.is_empty()).take(8).flatten().copied().max().unwrap_or(0)
    }

    fn calm(&self) -> u64 {
        ((self.days.len() - 1) * DAY + self.days.last().unwrap().len()) as u64
    }
}

/// A host and its definition side by side.
struct Days {
    bytecode: Bytecode,
    clock: Clock,
    walker: Walker,
    definition: Definition,
    /// Packets that the CPU may still let pass.
    left: u64,
    /// Packets that passed.
    passed: u64,
    /// Packets of the minute that were counted, and those that were refused.
    minute: (u64, u64),
}

impl Days {
    fn begin() -> Self {
        let bytecode = limited(LEARNED, 1 << 14);
        let (clock, walker) = (bytecode.clock(), flood(&bytecode));
        let definition =
            Definition { days: vec![Vec::new()], others: 0, repeats: 0, per_minute: 6_000_000, settling: 0 };
        Self { bytecode, clock, walker, definition, left: 0, passed: 0, minute: (0, 0) }
    }

    fn learned(&self) -> LearnedRate {
        self.bytecode.tables.learned_rate.open().unwrap().get(&0, 0).unwrap()
    }

    /// Sends packets of new sources at once, and counts them in batches as the CPU takes them.
    fn send(&mut self, packets: u32) {
        let (left, passed) = (self.left, self.passed);
        self.walker.run(Sources::Endless, Order::InTurn, packets);
        let of_cpus = |figure: fn(&Cpu) -> u64| self.bytecode.cpus().iter().map(figure).sum();
        (self.left, self.passed) = (of_cpus(|cpu| cpu.unknown_left), of_cpus(|cpu| cpu.unknown_passed));
        let passed = self.passed - passed;
        self.minute.0 += passed + self.left - left;
        self.minute.1 += u64::from(packets) - passed;
    }

    /// Begins the next minute with a packet, and compares what the program has learned with the definition.
    fn minute(&mut self, after: u64) {
        self.clock.advance(after);
        let (passed, refused) = std::mem::take(&mut self.minute);
        self.definition.end_minute(passed, refused, after);
        // The first packet ends the minute only if it takes a batch.
        self.send(self.left as u32 + 1);
        let learned = self.learned();
        let found = (learned.in_force(), learned.calm, learned.most());
        let definition = &self.definition;
        assert_eq!(found, (definition.in_force(), definition.calm(), definition.most()));
    }

    /// Lets minutes pass with few packets.
    fn minutes(&mut self, minutes: usize) {
        for _ in 0..minutes {
            self.minute(60 * SECOND);
        }
    }

    /// Lets the calm minutes of a day pass at once, up to its last one.
    fn skip_day(&mut self) {
        let mut learned = self.learned();
        let skipped = DAY - learned.calm as usize % DAY - 1;
        learned.calm += skipped as u64;
        self.bytecode.tables.learned_rate.open_mut().unwrap().set(0, learned, 0).unwrap();
        self.definition.days.last_mut().unwrap().extend(vec![0; skipped]);
    }

    /// Sends at this rate for the rest of a minute, as evenly as a burst needs.
    fn busy(&mut self, per_second: u32) {
        for _ in 0..590 {
            self.clock.advance(SECOND / 10);
            self.send(per_second / 10);
        }
        self.minute(SECOND);
    }

    fn per_second(&self) -> u64 {
        self.learned().in_force() / 60
    }
}

#[test]
fn the_program_learns_the_rate_as_it_is_defined() {
    stay_on_one_cpu();
    let mut days = Days::begin();
    days.minutes(30);
    // A flood that is over the first rate teaches nothing.
    for _ in 0..20 {
        days.send(60_000);
        days.minutes(1);
    }
    assert_eq!((days.learned().calm, days.per_second()), (30, 100_000));
    assert!(days.bytecode.count(Reason::OverUnknown) > 500_000);
    days.busy(500);
    days.skip_day();
    assert_eq!((days.learned().is_learning(), days.per_second()), (true, 100_000));
    // Twenty of its minutes were not calm, so this day begins again with what it has taught.
    days.minutes(1);
    assert_eq!((days.learned().calm, days.per_second()), (1, 100_000));
    days.skip_day();
    days.minutes(1);
    assert!((1_960..=2_010).contains(&days.per_second()), "{}", days.per_second());

    // One busy minute just below the rate, and a flood for hours.
    let before = days.per_second();
    days.busy(1_700);
    for _ in 0..300 {
        days.send(600);
        days.minutes(1);
    }
    let after = days.per_second();
    assert!(after > before * 114 / 100 && after < before * 116 / 100, "{before} {after}");
    assert_eq!(days.learned().calm, DAY as u64 + 1);

    // A pause is one minute, however long it is. Then everybody is new, and that teaches nothing.
    days.minute(30 * 86_400 * SECOND);
    assert_eq!((days.learned().calm, days.per_second()), (DAY as u64 + 2, 100_000));
    days.busy(50_000);
    days.minutes(8);
    assert_eq!(days.per_second(), 100_000);
    days.minutes(1);
    assert!(days.per_second() >= after && days.per_second() < after * 101 / 100);
    assert_eq!(days.learned().calm, DAY as u64 + 12);
    // The day of the flood begins again. The busy minute is forgotten eight days later.
    for _ in 0..8 {
        days.skip_day();
        days.minutes(2);
        assert!(days.per_second() > after);
    }
    days.skip_day();
    days.minutes(2);
    assert_eq!(days.per_second(), 1_000);
}

/// The burst that is full when the minute begins is spent when it ends, so a little more than a minute's worth passes.
#[test]
fn a_minute_in_which_a_flood_spends_all_of_the_rate_teaches_nothing() {
    stay_on_one_cpu();
    let (mut days, learned) = (Days::begin(), of(60 * 1_000));
    days.bytecode.tables.learned_rate.open_mut().unwrap().set(0, learned, 0).unwrap();
    let calm = learned.calm as usize;
    let all = [vec![vec![0; DAY]; calm / DAY], vec![vec![0; calm % DAY]]].concat();
    days.definition = Definition { days: all, others: 0, repeats: 0, per_minute: 60_000, settling: 0 };
    days.minutes(1);
    let calm = days.learned().calm;
    // Without and with a pause of the flood at the end.
    for pause in [1, 20] {
        days.send(100);
        for _ in pause..6_000 {
            days.clock.advance(SECOND / 100);
            days.send(100);
        }
        days.minute(pause * SECOND / 100);
    }
    assert_eq!((days.learned().calm, days.per_second()), (calm, 1_000));
}

/// The rate in force holds the flood, before and after it is learned.
#[test]
fn a_flood_gets_the_learned_rate() {
    stay_on_one_cpu();
    let mut days = Days::begin();
    for (learned, rate) in [(LearnedRate::default(), 100_000), (of(60 * 3_000), 3_000), (of(60 * 250_000), 250_000)] {
        days.bytecode.tables.learned_rate.open_mut().unwrap().set(0, learned, 0).unwrap();
        let before = days.bytecode.count(Reason::WithinLimit);
        for _ in 0..500 {
            days.walker.run(Sources::Endless, Order::InTurn, rate / 50);
            days.clock.advance(SECOND / 100);
        }
        let (passed, rate) = (days.bytecode.count(Reason::WithinLimit) - before, u64::from(rate));
        assert!(passed >= rate * 5 * 99 / 100 && passed <= rate * 5 + rate / 5 + rate / 1_000, "{passed} at {rate}/s");
    }
}

fn of(per_minute: u64) -> LearnedRate {
    LearnedRate { per_minute, begun: 1, calm: 1 << 20, ..LearnedRate::default() }
}
