//! The sources of the instance: which are busy, how their limits count, and their leases.

use std::{path::Path, time::Duration};

use ratelimit_base::text::{prefix::Prefix, service::ServiceName};
use ratelimit_common::{
    identity::{
        class::ANY,
        source::{IPV6, Source},
    },
    limits::policy::PolicyId,
    maps::{
        control::FEATURE_LEASES,
        event::{REFUSED, SHADOWED},
    },
};
use ratelimit_dataplane::{
    Error,
    instance::read_only::View,
    leases::Leases,
    readings::{
        busy::{Busy, Seen},
        events::Reader,
    },
    rules::{
        resolve::{self, Unruled},
        services::Services,
    },
    tables::open::Tables,
};
use ratelimit_fleet::table::Limits;

use super::measure::Measure;

/// CPU time of one look at the buckets.
const LOOK: Duration = Duration::from_millis(8);

/// The maps of the running instance.
pub(super) struct Traffic {
    view: View,
    /// Leases.
    pub(super) leases: Leases,
    events: Reader,
    services: Services,
    unruled: Unruled,
    default: PolicyId,
    generation: u32,
    limits: Limits,
}

/// The limit of a source. As long as it is equal, its measure is the same.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Rule {
    policy: PolicyId,
    generation: u32,
}

/// What a look at the rules tells.
pub(super) enum Rules {
    /// They are the same as before.
    Same,
    /// They have changed.
    Changed,
    /// The instance has other maps.
    OfOtherMaps,
}

impl Traffic {
    /// Opens the instance, if its program has leases.
    pub(super) fn open(pins: &Path, limits: Limits, now: u64) -> Result<Option<Self>, Error> {
        let view = View::open(pins)?;
        let tables = view.tables();
        let control = tables.control()?;
        if control.features & FEATURE_LEASES == 0 {
            return Ok(None);
        }
        let generation = control.generation;
        let (leases, events) = (Leases::open(tables)?, Reader::of(tables, now)?);
        let (services, default) = (Services::told_apart(tables)?, tables.default_policy(ANY)?);
        let unruled = Unruled::read(tables)?;
        Ok(Some(Self { view, leases, events, services, unruled, default, generation, limits }))
    }

    /// Takes over the present maps and rules.
    pub(super) fn renew(&mut self, pins: &Path) -> Result<Rules, Error> {
        let view = View::open(pins)?;
        let tables = view.tables();
        if !self.leases.are_of(tables)? || !self.events.reads(tables)? {
            return Ok(Rules::OfOtherMaps);
        }
        let generation = tables.control()?.generation;
        let rules = if generation == self.generation { Rules::Same } else { Rules::Changed };
        if matches!(rules, Rules::Changed) {
            (self.services, self.default) = (Services::told_apart(tables)?, tables.default_policy(ANY)?);
        }
        self.unruled = Unruled::read(tables)?;
        // Other numbers of buckets are other maps too.
        (self.view, self.generation) = (view, generation);
        Ok(rules)
    }

    /// Returns the sources that a limit has refused since the last call, with their hashes.
    pub(super) fn refused(&mut self) -> Vec<(Source, u64)> {
        if !self.events.has_news() {
            return Vec::new();
        }
        let Ok(seed) = self.tables().control().map(|control| control.seed) else { return Vec::new() };
        let events = self.events.read().events.into_iter();
        let refused = events.filter(|event| matches!(event.kind, REFUSED | SHADOWED) && event.source.parent == 0);
        refused.map(|event| (event.source, event.source.hash(&seed))).collect()
    }

    /// Looks at the buckets, and calls `visit` with sources that were seen twice.
    pub(super) fn look(&self, busy: &mut Busy, visit: impl FnMut(Seen)) -> Result<(), Error> {
        busy.look(self.tables(), LOOK, visit)
    }

    /// Returns the limit of a source. None if hosts do not share it.
    pub(super) fn rule(&self, source: &Source) -> Result<Option<Rule>, Error> {
        // A link-local address is another machine on each link.
        if source.family == IPV6 && source.prefix == 128 && source.address()[0] == 0xfe && source.address()[1] >> 6 == 2
        {
            return Ok(None);
        }
        let (_, classes) = self.services.of_key(source);
        // Looking the rules up takes several system calls.
        let has_default = self.unruled.has(source);
        let policy = if has_default { self.default } else { resolve::policy_of(self.tables(), source, classes)? };
        let is_shared = self.limits == Limits::All || policy == self.default;
        Ok(is_shared.then_some(Rule { policy, generation: self.generation }))
    }

    /// Returns how this limit of a source counts. None if hosts cannot share it.
    pub(super) fn measure(&self, source: &Source, rule: Rule) -> Result<Option<Measure>, Error> {
        let [prefix, service] = self.name(source);
        let name = if service == "any" { prefix } else { format!("{prefix} {service}") };
        Ok(Measure::of(&self.tables().policies.get(rule.policy)?, &name))
    }

    /// Returns what a source was admitted since it has its bucket, as its limit counts. Without a bucket, it may be much.
    pub(super) fn admitted(&self, source: &Source, measure: &Measure) -> f64 {
        let bucket = self.tables().buckets.open().ok().and_then(|buckets| buckets.get(source, 0).ok());
        bucket.map_or(f64::MAX, |bucket| measure.admitted(&bucket))
    }

    /// Returns prefix and service of a source as text.
    pub(super) fn name(&self, source: &Source) -> [String; 2] {
        let service = ServiceName(self.services.of_key(source).0).to_string();
        [Prefix::of(source, source.prefix).to_string(), service]
    }

    /// Returns the limit of sources without a rule, as far as hosts must agree on it.
    pub(super) fn default_limit(&self) -> String {
        let policy = self.tables().policies.get(self.default).ok();
        let limit = policy.and_then(|policy| Measure::in_words(&policy));
        let bits = self.tables().control().map_or(0, |control| control.ipv6_prefix);
        limit.map_or_else(|| "none".to_owned(), |limit| format!("{limit}, IPv6 /{bits}"))
    }

    fn tables(&self) -> &Tables {
        self.view.tables()
    }
}
