//! A rule: which requests it counts, by which attributes, and how many of them may come.

use std::time::Duration;

use super::{
    ask::ask,
    attributes::Attributes,
    client::is_same,
    limit::{Algorithm, Limit, State, States, has_ended, within},
    rule_error::RuleError,
    shares::Shared,
    throttle::Throttle,
    verdict::{Charged, MOST_LIMITS, Part, Verdict},
};

/// Clients of a rule without a number of its own.
const CLIENTS: usize = 1 << 20;
/// The fewest clients of a rule.
const FEWEST: usize = 64;
/// Bytes of memory for the clients of such a rule.
pub const MEMORY: usize = 256 << 20;
/// Bytes of a client beside its states.
const ENTRY: usize = 48;
/// Bits of an IPv6 address that count as one client.
const IPV6_PREFIX: u8 = 64;

/// A rule.
#[derive(Debug, Clone)]
pub struct Rule {
    name: String,
    values: Vec<(String, Vec<String>)>,
    by: Vec<String>,
    limits: Vec<Limit>,
    soft: Vec<Limit>,
    throttle: Throttle,
    is_shadow: bool,
    ipv6_prefix: u8,
    clients: Option<usize>,
    memory: usize,
    stops: bool,
    life: Option<u64>,
}

impl Rule {
    /// Creates a rule that counts all requests together.
    ///
    /// # Errors
    ///
    /// [`RuleError`] for no limit or too many.
    pub fn new(name: impl Into<String>, limits: impl IntoIterator<Item = Limit>) -> Result<Self, RuleError> {
        let limits: Vec<_> = limits.into_iter().collect();
        match limits.len() {
            0 => return Err(RuleError::NoLimit),
            1..=MOST_LIMITS => {}
            _ => return Err(RuleError::Limits),
        }
        Ok(Self {
            name: name.into(),
            values: Vec::new(),
            by: Vec::new(),
            limits,
            soft: Vec::new(),
            throttle: Throttle::Hard,
            is_shadow: false,
            ipv6_prefix: IPV6_PREFIX,
            clients: None,
            memory: MEMORY,
            stops: false,
            life: None,
        })
    }

    /// Returns the rule for requests whose attribute has one of these values only.
    #[must_use]
    pub fn with_values<V: Into<String>>(
        mut self,
        attribute: impl Into<String>,
        values: impl IntoIterator<Item = V>,
    ) -> Self {
        self.values.push((attribute.into(), values.into_iter().map(Into::into).collect()));
        self
    }

    /// Returns the rule with a count for each value of these attributes. It does not apply to requests without them.
    #[must_use]
    pub fn by<N: Into<String>>(mut self, attributes: impl IntoIterator<Item = N>) -> Self {
        self.by = attributes.into_iter().map(Into::into).collect();
        self
    }

    /// Returns the rule with what happens above its limits.
    ///
    /// # Errors
    ///
    /// [`RuleError::Soft`] if so few hundredths of a limit are less than one request, and [`RuleError::Queue`] if one of
    /// the limits is a queue.
    pub fn with_throttle(mut self, throttle: Throttle) -> Result<Self, RuleError> {
        if throttle != Throttle::Hard && self.limits.iter().any(|limit| limit.algorithm() == Algorithm::Queue) {
            return Err(RuleError::Queue);
        }
        self.soft = match throttle {
            Throttle::Soft(percent) => {
                self.limits.iter().map(|limit| limit.hundredths(percent)).collect::<Result<_, _>>()?
            }
            Throttle::Hard | Throttle::Elastic => Vec::new(),
        };
        self.throttle = throttle;
        Ok(self)
    }

    /// Returns the rule so that it only says what it would refuse.
    #[must_use]
    pub fn in_shadow(self, is_shadow: bool) -> Self {
        Self { is_shadow, ..self }
    }

    /// Returns the rule with so many bits of an IPv6 address as one client, at most 128.
    #[must_use]
    pub fn with_ipv6_prefix(self, bits: u8) -> Self {
        Self { ipv6_prefix: bits.min(128), ..self }
    }

    /// Returns the rule with at most this many clients at a time, rounded up to a power of two, and at least 64. Without
    /// this, there are 1,048,576, or fewer if they could take more than 256 MiB.
    #[must_use]
    pub fn with_clients(self, clients: usize) -> Self {
        Self { clients: Some(clients), ..self }
    }

    /// Returns the rule so that a client without a request for this long begins anew. Requests that are refused count too.
    #[must_use]
    pub fn with_identity_life(self, life: Duration) -> Self {
        Self { life: Some(u64::try_from(life.as_nanos()).unwrap_or(u64::MAX)), ..self }
    }

    /// Returns the rule with whether the clients that it refuses should be stopped at the network card. The limiter only
    /// tells so: see [`Decision::stop`](super::Decision::stop).
    #[must_use]
    pub fn with_stop(self, stops: bool) -> Self {
        Self { stops, ..self }
    }

    /// Returns the rule with so much memory for its clients, in bytes. It has no effect on a rule with a number of clients.
    #[must_use]
    pub fn with_memory(self, memory: usize) -> Self {
        Self { memory, ..self }
    }

    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its limits.
    #[must_use]
    pub fn limits(&self) -> &[Limit] {
        &self.limits
    }

    /// Returns the attributes by whose values it counts.
    #[must_use]
    pub fn attributes(&self) -> &[String] {
        &self.by
    }

    /// Returns the attributes of which a request must have certain values.
    pub fn conditions(&self) -> impl Iterator<Item = &str> {
        self.values.iter().map(|(name, _)| name.as_str())
    }

    /// Returns whether it only says what it would refuse.
    #[must_use]
    pub fn is_shadow(&self) -> bool {
        self.is_shadow
    }

    /// Returns whether the clients that it refuses should be stopped at the network card.
    #[must_use]
    pub fn stops(&self) -> bool {
        self.stops
    }

    /// Returns the most clients at a time: a power of two.
    #[must_use]
    pub fn clients(&self) -> usize {
        let fit = 1 << (self.memory / self.bytes_of_client()).max(1).ilog2();
        self.clients.map_or(fit.min(CLIENTS), usize::next_power_of_two).max(FEWEST)
    }

    /// Returns its limits as several servers share them. Empty if one of them is too large for that.
    pub(super) fn shared(&self) -> Vec<Shared> {
        let shared = |(number, limit)| Shared::of(limit, self.soft.get(number));
        self.limits.iter().enumerate().map(shared).collect::<Option<_>>().unwrap_or_default()
    }

    /// Returns what a client has used of a limit.
    pub(super) fn used(&self, states: &mut States, number: usize, now: u64) -> u64 {
        let limit = self.limits.get(number).zip(states.get_mut(number));
        limit.map_or(0, |(limit, state)| limit.most().saturating_sub(limit.left(state, now).0))
    }

    /// Returns the bytes that its clients take at most, if the rule has a number of clients of its own.
    #[must_use]
    pub fn own_memory(&self) -> Option<usize> {
        self.clients.map(|_| self.clients().saturating_mul(self.bytes_of_client()))
    }

    /// Returns the bytes that its clients take with the smallest memory.
    #[must_use]
    pub fn least_memory(&self) -> usize {
        FEWEST.saturating_mul(self.bytes_of_client())
    }

    fn bytes_of_client(&self) -> usize {
        let state = |limit: &Limit| limit.largest() + size_of::<State>();
        let seen = self.life.map_or(0, |_| size_of::<State>());
        ENTRY + self.limits.iter().chain(&self.soft).map(state).sum::<usize>() + seen
    }

    /// Returns how long a client without a request is remembered, if it says so.
    pub(super) fn life(&self) -> Option<u64> {
        self.life
    }

    /// Returns how many bits of an IPv6 address identify a client.
    pub fn ipv6_prefix(&self) -> u8 {
        self.ipv6_prefix
    }

    /// Returns whether requests with these attributes are counted.
    pub(super) fn fits(&self, attributes: &(impl Attributes + ?Sized)) -> bool {
        let has = |(name, values): &(String, Vec<String>)| {
            attributes.value(name).is_some_and(|value| values.iter().any(|this| is_same(name, this, value)))
        };
        self.values.iter().all(has)
    }

    /// Returns the states of a new client.
    pub(super) fn begin(&self, now: u64) -> States {
        let seen = self.life.map(|_| State::Seen(now));
        self.limits.iter().chain(&self.soft).map(|limit| limit.begin(now)).chain(seen).collect()
    }

    /// Asks all limits for so many requests. See [`Self::charge`].
    pub(super) fn ask(&self, states: &mut States, now: u64, cost: u32, has_room: bool) -> Verdict {
        if states.len() != self.limits.len() + self.soft.len() + usize::from(self.life.is_some()) {
            // Another rule of the same name had other limits.
            *states = self.begin(now);
        }
        let is_elastic = self.throttle == Throttle::Elastic && has_room;
        ask(&self.limits, &self.soft, states, (now, cost, self.life), is_elastic)
    }

    /// Charges what its limits have just admitted.
    pub(super) fn charge(&self, states: &mut States, charged: &Charged, now: u64, cost: u32) {
        self.change(states, charged, |limit, state| limit.charge(state, now, cost));
    }

    /// Takes back what was charged at this moment.
    pub(super) fn give_back(&self, states: &mut States, charged: &Charged, now: u64, cost: u32) {
        self.change(states, charged, |limit, state| limit.give_back(state, now, cost));
    }

    fn change(&self, states: &mut States, charged: &Charged, change: impl Fn(&Limit, &mut State)) {
        for (number, part) in charged.iter().enumerate() {
            let (limits, place) = match part {
                Part::Limit => (&self.limits, number),
                Part::Soft => (&self.soft, self.limits.len() + number),
                Part::Room => continue,
            };
            if let Some((limit, state)) = limits.get(number).zip(states.get_mut(place)) {
                change(limit, state);
            }
        }
    }

    /// Returns a limit, how many further requests it admits, and the nanoseconds until it forgets those before. Without
    /// a number, it is the one that admits the fewest.
    pub(super) fn usage(&self, states: &mut States, number: Option<usize>, now: u64) -> (usize, u64, u64) {
        let mut left = |number: usize| {
            let (limit, state) = self.limits.get(number).zip(states.get_mut(number))?;
            let (left, end) = limit.left(state, now);
            Some((number, left, within(self.life, end)))
        };
        match number {
            Some(number) => left(number),
            None => (0..self.limits.len()).filter_map(left).min_by_key(|(_, left, _)| *left),
        }
        .unwrap_or_default()
    }

    /// Returns whether another rule has other rates, so that states must be [converted](Self::convert).
    pub(super) fn has_other_rates(&self, old: &Self) -> bool {
        let rates = |rule: &Self| rule.limits.iter().chain(&rule.soft).map(Limit::rate).collect::<Vec<_>>();
        rates(self) != rates(old)
    }

    /// Converts states of another rule, so that clients have used as many requests as before.
    pub(super) fn convert(&self, old: &Self, states: &mut States, now: u64) {
        let (new, old) = (self.limits.iter().chain(&self.soft), old.limits.iter().chain(&old.soft));
        new.zip(old).zip(states).for_each(|((new, old), state)| new.convert(old, state, now));
    }

    /// Returns whether the states say nothing any more.
    pub(super) fn is_idle(&self, states: &mut States, now: u64) -> bool {
        let limits = self.limits.iter().chain(&self.soft);
        has_ended(self.life, states, now)
            || limits.zip(states.iter_mut()).all(|(limit, state)| limit.left(state, now).1 == 0)
    }
}
