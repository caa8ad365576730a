//! One limit of a rule: how it counts, and what it answers.

mod algorithm;
mod life;
mod log;
mod look;
mod parts;
mod state;

use ratelimit_common::{
    limits::{
        algorithm::Algorithm as OfPackets,
        limit::{self, Rate},
        limit_error::LimitError as NotForPackets,
    },
    meters::{
        gcra::{self, Answer, units},
        meter::Meter,
        state::debt,
        window::Window,
    },
};

pub use self::algorithm::{Algorithm, LimitError};
pub(crate) use self::{
    life::{has_ended, see, within},
    look::{Look, NEVER},
    state::{State, States},
};
use self::{log::Log, parts::Parts};

/// One limit of a rule.
#[derive(Debug, Clone)]
pub struct Limit {
    rate: Rate,
    burst: Option<u64>,
    algorithm: Algorithm,
    /// The most requests at once.
    most: u64,
    meter: Counts,
}

#[derive(Debug, Clone)]
enum Counts {
    Bucket(Meter),
    Fixed(Window),
    Sliding(Window),
    Parts(Parts),
    Log(Log),
}

impl Limit {
    /// Creates a limit of so many requests per period. Without a burst, a bucket has that of its rate.
    ///
    /// # Errors
    ///
    /// [`LimitError`] says which number is out of bounds.
    pub fn new(rate: Rate, burst: Option<u64>, algorithm: Algorithm) -> Result<Self, LimitError> {
        let of_packets = |algorithm| {
            let limit = limit::Limit { packets: Some(rate), burst, algorithm, ..limit::Limit::default() };
            limit.policy()
        };
        let policy = match algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyBucket | Algorithm::Queue => of_packets(OfPackets::TokenBucket),
            Algorithm::SlidingWindow => of_packets(OfPackets::SlidingWindow),
            // The others count in more than one word. This finds rates and bursts that no algorithm accepts.
            Algorithm::FixedWindow | Algorithm::SlidingCounters | Algorithm::SlidingLog => {
                of_packets(OfPackets::FixedWindow)
            }
        };
        let policy = policy.map_err(|error| match error {
            NotForPackets::NoBurst => LimitError::NoBurst,
            NotForPackets::Burst(most) => LimitError::Burst(most),
            NotForPackets::BurstOfWindow(_) => LimitError::BurstOfWindow(algorithm),
            NotForPackets::Window(_, most) => LimitError::Window(algorithm, most),
            _ => LimitError::Rate,
        })?;
        let [window, _] = policy.windows;
        let meter = match algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyBucket | Algorithm::Queue => Counts::Bucket(policy.packets),
            Algorithm::FixedWindow => Counts::Fixed(window),
            Algorithm::SlidingWindow => Counts::Sliding(window),
            Algorithm::SlidingCounters => Counts::Parts(Parts::new(rate.amount, rate.period)),
            Algorithm::SlidingLog => Counts::Log(Log::new(rate.amount, rate.period)),
        };
        let most = match &meter {
            Counts::Bucket(meter) => meter.burst / meter.cost_of(1).max(1),
            Counts::Fixed(_) | Counts::Sliding(_) | Counts::Parts(_) | Counts::Log(_) => rate.amount,
        };
        Ok(Self { rate, burst, algorithm, most, meter })
    }

    /// Returns the limit of so many hundredths of its rate and burst.
    ///
    /// # Errors
    ///
    /// [`LimitError::Hundredths`] where that is less than one request.
    pub fn hundredths(&self, percent: u8) -> Result<Self, LimitError> {
        let part = |amount: u64| amount.saturating_mul(u64::from(percent)) / 100;
        let error = LimitError::Hundredths(percent);
        let rate = Rate { amount: part(self.rate.amount), ..self.rate };
        let burst = self.burst.map(part);
        if rate.amount == 0 || burst == Some(0) {
            return Err(error);
        }
        Self::new(rate, burst, self.algorithm).map_err(|_| error)
    }

    /// Returns the rate.
    #[must_use]
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Returns how it counts.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Returns the most requests at once.
    pub(crate) fn most(&self) -> u64 {
        self.most
    }

    /// Returns a token bucket of these numbers.
    pub(crate) fn bucket(amount: u64, period: u64, burst: u64) -> Result<Meter, NotForPackets> {
        let packets = Some(Rate { amount, period });
        Ok(limit::Limit { packets, burst: Some(burst), ..limit::Limit::default() }.policy()?.packets)
    }

    /// Returns the most bytes that the state of one client takes beside its entry.
    pub(crate) fn largest(&self) -> usize {
        match &self.meter {
            Counts::Bucket(_) | Counts::Fixed(_) | Counts::Sliding(_) => 0,
            Counts::Parts(_) => Parts::BYTES,
            Counts::Log(log) => log.bytes(),
        }
    }

    /// Returns the state of a new client.
    pub(crate) fn begin(&self, now: u64) -> State {
        match &self.meter {
            Counts::Bucket(_) => State::Word(units(now)),
            Counts::Fixed(_) | Counts::Sliding(_) => State::Word(0),
            Counts::Parts(_) => State::Parts(Box::default()),
            Counts::Log(_) => State::Log(Box::default()),
        }
    }

    /// Asks for so many requests, and charges nothing.
    pub(crate) fn ask(&self, state: &mut State, now: u64, cost: u32) -> Look {
        if u64::from(cost) > self.most {
            return Look::Refuse { wait: NEVER };
        }
        match (&self.meter, state) {
            (Counts::Bucket(meter), State::Word(state)) => self.ask_bucket(meter, state, now, cost),
            (Counts::Fixed(window), State::Word(state)) => match window.ask_fixed(*state, now, u64::from(cost)) {
                Some(_) => Look::Admit { after: 0 },
                None => Look::Refuse { wait: window.wait_fixed(now) },
            },
            (Counts::Sliding(window), State::Word(state)) => match window.ask_sliding(*state, now, u64::from(cost)) {
                Some(_) => Look::Admit { after: 0 },
                None => Look::Refuse { wait: window.wait_sliding(*state, now, u64::from(cost)) },
            },
            (Counts::Parts(parts), State::Parts(counts)) => parts.ask(counts, now, cost),
            (Counts::Log(log), State::Log(times)) => log.ask(times, now, cost),
            // Another rule has left a state that this limit cannot read.
            (_, state) => {
                *state = self.begin(now);
                Look::Admit { after: 0 }
            }
        }
    }

    fn ask_bucket(&self, meter: &Meter, state: &mut u64, now: u64, cost: u32) -> Look {
        let (owed, cost) = (debt(*state, units(now)), price(meter, cost));
        let owed = match gcra::ask_owing(owed, units(now), cost, meter.burst, meter.burst) {
            Answer::Admit(_) => {
                return Look::Admit { after: if self.algorithm == Algorithm::Queue { whole(owed) } else { 0 } };
            }
            Answer::Refuse => owed,
            // A request that began under another rule has left it.
            Answer::Cap(capped) => {
                *state = capped;
                meter.burst
            }
        };
        Look::Refuse { wait: whole((owed + cost).saturating_sub(meter.burst)) }
    }

    /// Charges so many requests that it has just admitted.
    pub(crate) fn charge(&self, state: &mut State, now: u64, cost: u32) {
        match (&self.meter, state) {
            (Counts::Bucket(meter), State::Word(state)) => {
                *state = units(now).wrapping_add(debt(*state, units(now)) + price(meter, cost));
            }
            (Counts::Fixed(window), State::Word(state)) => {
                *state = window.ask_fixed(*state, now, u64::from(cost)).unwrap_or(*state);
            }
            (Counts::Sliding(window), State::Word(state)) => {
                *state = window.ask_sliding(*state, now, u64::from(cost)).unwrap_or(*state);
            }
            (Counts::Parts(parts), State::Parts(counts)) => parts.charge(counts, now, cost),
            (Counts::Log(log), State::Log(times)) => log.charge(times, now, cost),
            _ => {}
        }
    }

    /// Takes a charge of this moment back.
    pub(crate) fn give_back(&self, state: &mut State, now: u64, cost: u32) {
        match (&self.meter, state) {
            (Counts::Bucket(meter), State::Word(state)) => *state = state.wrapping_sub(price(meter, cost)),
            (Counts::Fixed(window) | Counts::Sliding(window), State::Word(state)) => {
                *state = window.refund(*state, now, u64::from(cost)).unwrap_or(*state);
            }
            (Counts::Parts(parts), State::Parts(counts)) => parts.give_back(counts, now, cost),
            (Counts::Log(log), State::Log(times)) => log.give_back(times, now, cost),
            _ => {}
        }
    }

    /// Converts a state of another limit, so that the client has used as many requests as before. Counts need no change.
    pub(crate) fn convert(&self, old: &Self, state: &mut State, now: u64) {
        if let (Counts::Bucket(new), Counts::Bucket(old), State::Word(state)) = (&self.meter, &old.meter, state) {
            let owed = u128::from(debt(*state, units(now))) * u128::from(new.cost_of(1));
            let owed = owed / u128::from(old.cost_of(1).max(1));
            // Even, as all times are. Nobody waits for longer than under the new limit.
            let owed = owed.min(u128::from(new.burst)) as u64 & !1;
            *state = units(now).wrapping_add(owed);
        }
    }

    /// Returns how many requests it still admits, and the nanoseconds until it has forgotten all of them.
    pub(crate) fn left(&self, state: &mut State, now: u64) -> (u64, u64) {
        match (&self.meter, state) {
            (Counts::Bucket(meter), State::Word(state)) => {
                let owed = debt(*state, units(now));
                (meter.burst.saturating_sub(owed) / meter.cost_of(1).max(1), whole(owed))
            }
            (Counts::Fixed(window) | Counts::Sliding(window), State::Word(state)) => {
                (window.limit.saturating_sub(window.counted(*state, now)), window.forgets(*state, now))
            }
            (Counts::Parts(parts), State::Parts(counts)) => parts.left(counts, now),
            (Counts::Log(log), State::Log(times)) => log.left(times, now),
            _ => (self.rate.amount, 0),
        }
    }
}

/// Returns the debt of so many requests, which fit the burst.
pub(crate) fn price(meter: &Meter, cost: u32) -> gcra::Units {
    meter.cost_of(1).saturating_mul(u64::from(cost))
}

/// Returns the nanoseconds of a time in units, rounded up.
pub(crate) fn whole(time: gcra::Units) -> u64 {
    time.div_ceil(1 << gcra::FRACTION_BITS)
}
