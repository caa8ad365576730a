//! Hosts whose buckets keep to the shares, and whose network loses, repeats and reorders datagrams.

use ratelimit_common::fleet::{demand::Demand, share::Record};

use super::*;

/// A source on one host.
#[derive(Clone, Copy)]
struct Source {
    tokens: f64,
    share: Option<f64>,
    demand: Demand,
    record: u64,
}

impl Source {
    const NEW: Self = Self { tokens: LIMIT.burst, share: None, demand: Demand { packets: 0.0, time: 0.0 }, record: 0 };

    /// Offers so much of the limit in a period, and returns the report.
    fn offer(&mut self, rate: f64, terms: &Terms, now: f64) -> Message {
        let (offered, part) = (rate * LIMIT.rate * terms.period, self.share.unwrap_or(1.0));
        self.tokens = (self.tokens + part * LIMIT.rate * terms.period).min(LIMIT.burst.max(offered));
        let admitted = offered.min(self.tokens);
        self.tokens -= admitted;
        self.demand = self.demand.after(offered, now, terms.memory());
        message(1, offered, admitted, self.demand.packets, self.record)
    }

    fn take(&mut self, answer: &Answer) {
        (self.share, self.record) = (answer.share, answer.record);
    }
}

/// Returns what the hosts admit in each second, as a part of the limit. `rates` tells what each is offered.
fn admitted(way: &mut dyn FnMut(usize, usize) -> usize, seconds: usize, rates: impl Fn(f64) -> Vec<f64>) -> Vec<f64> {
    let (terms, count) = (Terms::default(), rates(0.0).len());
    let mut network = Network::new(count, way);
    // They find each other first.
    (0..10).for_each(|half| network.tick(f64::from(half) / 2.0));
    let (mut sources, mut sums) = (vec![Source::NEW; count], vec![0.0; seconds]);
    for period in 0..5 * seconds {
        if period % 2 == 0 {
            network.tick(5.0 + period as f64 * terms.period);
        }
        for (host, source) in sources.iter_mut().enumerate() {
            let now = 5.0 + (period as f64 + host as f64 / count as f64) * terms.period;
            let rate = rates(now - 5.0)[host];
            let message = source.offer(rate, &terms, now);
            sums[period / 5] += message.report.admitted / LIMIT.rate;
            if rate > 0.0 {
                let (answers, _) = network.with(host, now, |state, send| state.report(&terms, &[message], now, send));
                source.take(&answers[0].unwrap());
            }
        }
    }
    sums
}

/// Returns the same with one record at a server.
fn by_a_server(seconds: usize, rates: &[f64]) -> Vec<f64> {
    let terms = Terms::default();
    let mut record = Record::new(7, &LIMIT, &terms, 0.0);
    let (mut sources, mut sums) = (vec![Source::NEW; rates.len()], vec![0.0; seconds]);
    for period in 0..5 * seconds {
        for (host, source) in sources.iter_mut().enumerate() {
            let now = (period as f64 + host as f64 / rates.len() as f64) * terms.period;
            let report = source.offer(rates[host], &terms, now).report;
            sums[period / 5] += report.admitted / LIMIT.rate;
            source.take(&record.take(&report, &LIMIT, &terms, now));
        }
    }
    sums
}

#[test]
fn hosts_without_a_server_admit_what_they_admit_with_one() {
    for rates in [vec![3.0; 3], vec![10.0; 3], vec![5.0, 1.0, 0.5], vec![0.5; 10], vec![1.0; 30], vec![10.0]] {
        let found = admitted(&mut |_, _| 1, 10, |_| rates.clone());
        let expected = by_a_server(10, &rates);
        for (second, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert!((found - expected).abs() < 0.1, "{rates:?}, second {second}: {found}, {expected}");
        }
        // Many hosts make up for many bursts.
        let settled = if rates.len() > 10 { 9 } else { 3 };
        assert!(found[settled..].iter().all(|rate| (0.95..=1.05).contains(rate)), "{rates:?}: {found:?}");
    }
}

#[test]
fn lost_and_repeated_datagrams_change_little() {
    // Each pair of hosts has its own sequence, since hosts greet in any order.
    let mut seeds: [u64; 9] = std::array::from_fn(|pair| pair as u64);
    let mut way = |from: usize, to: usize| {
        let seed = &mut seeds[3 * from + to];
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // One of five is lost, and one of five comes twice.
        [0, 1, 1, 1, 2][(*seed >> 33) as usize % 5]
    };
    let found = admitted(&mut way, 20, |_| vec![3.0; 3]);
    let mean = found[3..].iter().sum::<f64>() / 17.0;
    assert!((0.97..=1.03).contains(&mean), "{found:?}");
    println!("{found:?}");
    let pairs = found[4..].chunks(2).map(|pair| pair.iter().sum::<f64>() / 2.0);
    assert!(pairs.into_iter().all(|rate| (0.9..=1.1).contains(&rate)), "{found:?}");
}

#[test]
fn hosts_below_the_limit_in_all_lose_nothing() {
    let found = admitted(&mut |_, _| 1, 10, |_| vec![0.3; 3]);
    assert!(found.iter().all(|rate| (rate - 0.9).abs() < 1e-9), "{found:?}");
}

#[test]
fn a_source_that_comes_to_another_host_gets_the_same_limit_there() {
    let found = admitted(&mut |_, _| 1, 20, |now| if now < 10.0 { vec![5.0, 0.0] } else { vec![0.0, 5.0] });
    let mean = found[3..].iter().sum::<f64>() / 17.0;
    assert!((0.95..=1.05).contains(&mean), "{found:?}");
}

#[test]
fn hosts_cut_off_from_each_other_admit_a_limit_each_and_share_again_afterwards() {
    let cut = std::cell::Cell::new(false);
    let mut way = |_: usize, _: usize| usize::from(!cut.get());
    let found = admitted(&mut way, 30, |now| {
        cut.set((10.0..20.0).contains(&now));
        vec![3.0; 2]
    });
    assert!(found[15..20].iter().all(|rate| (1.9..=2.1).contains(rate)), "{found:?}");
    assert!(found[24..].iter().all(|rate| (0.9..=1.1).contains(rate)), "{found:?}");
}
