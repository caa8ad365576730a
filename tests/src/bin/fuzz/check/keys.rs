//! Clients with any names, beside a count of what each of them was admitted.

use std::collections::HashMap;

use anyhow::{Result, ensure};
use ratelimit_limiter::{Algorithm, Limit, Limiter, Rate, Rule};
use ratelimit_tests::generate::random::Random;

use super::{mutate::mutated, target::Target};

const SECOND: u64 = 1_000_000_000;
/// Requests before other rules and clients.
const ROUND: usize = 400;
/// Clients of a round with known names. A group of the table has room for all of them.
const KNOWN: usize = 12;

/// What the clients of a rule have been admitted: time and cost.
type Admitted = HashMap<(String, String), Vec<(u64, u64)>>;

#[derive(Default)]
pub(super) struct Keys(Option<Round>);

/// One rule and its clients.
struct Round {
    limiter: Limiter,
    algorithm: Algorithm,
    limit: u64,
    period: u64,
    clients: Vec<(String, String)>,
    admitted: Admitted,
    now: u64,
    left: usize,
    /// Whether the clock goes back, or so many clients come that the table forgets some of them.
    is_wild: bool,
}

impl Round {
    fn new(random: &mut Random) -> Result<Self> {
        let algorithm = random.among(&Algorithm::ALL);
        let limit = random.among(&[1, 2, 3, 7, 60, 100, 1_000]);
        let period = random.among(&[1, 60, 3_600, 86_400]) * SECOND;
        let rule = Rule::new("rule", [Limit::new(Rate { amount: limit, period }, None, algorithm)?])?;
        let rule = rule.by(["a", "b"]).with_clients(64);
        let mut clients: Vec<(String, String)> = vec![
            ("a".to_owned(), "bc".to_owned()),
            ("ab".to_owned(), "c".to_owned()),
            (String::new(), "abc".to_owned()),
            ("abc".to_owned(), String::new()),
        ];
        let corpus: Vec<Vec<u8>> = clients.iter().map(|(a, _)| a.clone().into_bytes()).collect();
        let name = |random: &mut Random| String::from_utf8_lossy(&mutated(&corpus, random)).into_owned();
        while clients.len() < KNOWN {
            let client = (name(random), name(random));
            if !clients.contains(&client) {
                clients.push(client);
            }
        }
        Ok(Self {
            limiter: Limiter::new([rule], [random.next(), random.next()]),
            algorithm,
            limit,
            period,
            clients,
            admitted: Admitted::new(),
            now: random.among(&[0, 1, 1_000 * period, u64::MAX / 4]) + random.below(period as usize) as u64,
            left: ROUND,
            is_wild: random.percent(20),
        })
    }

    fn next(&mut self, random: &mut Random) -> Result<&'static str> {
        let part = random.among(&[1, 10, 1_000]);
        let step = random.below((self.period / part) as usize) as u64;
        let any = random.next();
        self.now = if self.is_wild && random.percent(10) {
            random.among(&[0, self.now.saturating_sub(step), u64::MAX, u64::MAX - 1, any])
        } else {
            self.now.saturating_add(step)
        };
        let cost = random.among(&[0, 1, 1, 1, 2, self.limit as u32, self.limit as u32 + 1, u32::MAX]);
        let mut client = self.clients[random.below(KNOWN)].clone();
        if self.is_wild && random.percent(50) {
            client.0 += &random.next().to_string();
        }
        let decision = self.limiter.check(&[("a", &client.0), ("b", &client.1)], cost, self.now);
        ensure!(decision.limit.is_some(), "a rule has not counted {client:?}");
        let is_allowed = decision.is_allowed;
        let of_client =
            || format!("{:?}, {} in {}, cost {cost} at {}", self.algorithm, self.limit, self.period, self.now);
        ensure!(!is_allowed || u64::from(cost) <= self.limit, "more than the limit passes: {}", of_client());
        if self.is_wild {
            return Ok(if is_allowed { "allowed" } else { "refused" });
        }
        let admitted = self.admitted.entry(client).or_default();
        if admitted.is_empty() {
            ensure!(is_allowed == (u64::from(cost) <= self.limit), "a new client: {}", of_client());
        }
        if !is_allowed {
            return Ok("refused");
        }
        if cost > 0 {
            admitted.push((self.now, u64::from(cost)));
            let since = self.now.saturating_sub(self.period - 1);
            let sum: u64 = admitted.iter().filter(|(time, _)| *time >= since).map(|(_, cost)| cost).sum();
            let most = match self.algorithm {
                Algorithm::SlidingLog => self.limit,
                // What a period brings back passes beside what passes at once, and around the edge of two periods.
                _ => 2 * self.limit,
            };
            ensure!(sum <= most, "{sum} have passed in a period: {}", of_client());
            let window = |time: u64| time / self.period;
            let sum: u64 =
                admitted.iter().filter(|(time, _)| window(*time) == window(self.now)).map(|(_, cost)| cost).sum();
            let is_fixed = self.algorithm == Algorithm::FixedWindow;
            ensure!(!is_fixed || sum <= self.limit, "{sum} have passed in a window: {}", of_client());
        }
        Ok("allowed")
    }
}

impl Target for Keys {
    fn next(&mut self, random: &mut Random) -> Result<&'static str> {
        let mut round = match self.0.take() {
            Some(round) if round.left > 0 => round,
            _ => Round::new(random)?,
        };
        round.left -= 1;
        let outcome = round.next(random);
        self.0 = Some(round);
        outcome
    }
}
