//! The rows of the benchmark: configurations of the limiter.

use std::cmp::Reverse;

use anyhow::{Result, anyhow};
use ratelimit_common::{
    identity::source::IPV4,
    limits::{
        limit::{BURST_FRAME, Limit, Rate, SECOND},
        policy::{ALLOWED_ID, Ban, DENIED_ID, Policy},
    },
    maps::names,
};
use ratelimit_dataplane::{
    program::loader::Settings,
    rules::spec::{ParentLimit, RuleSpec, Scope},
};
use ratelimit_tests::{Bytecode, Sources, per_second};

use crate::{
    crowd::{bans, host_rules, prefix_rules},
    state::State,
};

/// Destination port of packets.
pub(crate) const PORT: u16 = 9;

/// The row that ratios refer to, beside the default.
pub(crate) const REFERENCE: &str = "front off";

/// One row, as the difference to [`DEFAULT`].
pub(crate) struct Configuration {
    pub(crate) name: &'static str,
    /// Changes settings that already have space for the sources.
    pub(crate) settings: fn(Settings) -> Settings,
    /// Sets rules before any policy, for traffic from at most this many sources.
    pub(crate) prepare: fn(&mut Bytecode, Sources) -> Result<()>,
    /// Sets the policy of the traffic's sources, and replaces it repeatedly.
    pub(crate) rules: fn(&mut Bytecode, &Policy),
    /// States that are measured.
    pub(crate) states: &'static [State],
    /// Numbers of sources that are measured.
    pub(crate) sources: &'static [Sources],
    /// Whether it is also measured with real frames and on two CPUs.
    pub(crate) on_wire: bool,
}

/// All numbers of sources. Thousands are decimal, since a full map of 65,536 would evict some of as many sources.
pub(crate) const SOURCES: [Sources; 8] = [
    Sources::Count(1),
    Sources::Count(1_000),
    Sources::Count(16_000),
    Sources::Count(64_000),
    BOTNET,
    Sources::Count(256_000),
    Sources::Count(1_000_000),
    Sources::Endless,
];
/// As many sources as a botnet has.
pub(crate) const BOTNET: Sources = Sources::Count(128_000);

/// The numbers of sources that most tables have.
pub(crate) const COMMON_SOURCES: [Sources; 6] = [
    Sources::Count(1),
    Sources::Count(1_000),
    Sources::Count(64_000),
    BOTNET,
    Sources::Count(256_000),
    Sources::Endless,
];

/// A known source caches its rule in its bucket. New sources show the cost of a lookup.
const FEW_SOURCES: &[Sources] =
    &[Sources::Count(1), Sources::Count(64_000), BOTNET, Sources::Count(256_000), Sources::Endless];

/// A limit of unknown sources that no flood reaches.
const UNLIMITED: u64 = 100_000_000;

/// The default configuration.
pub(crate) const DEFAULT: Configuration = Configuration {
    name: "default",
    settings: |settings| settings,
    prepare: |_, _| Ok(()),
    rules: |bytecode, policy| bytecode.set("default", *policy),
    states: &State::ALL,
    sources: &SOURCES,
    on_wire: true,
};

/// A row with its own rules, for few numbers of sources.
pub(crate) const SPECIAL: Configuration =
    Configuration { states: &[State::Passing], sources: FEW_SOURCES, on_wire: false, ..DEFAULT };

/// What an operator may run: limits of packets and bytes, of services, and rules of sources outside the traffic.
const PRODUCTION: Configuration = Configuration {
    name: "production",
    settings: |settings| Settings { services: true, lanes: true, bans: true, ..settings },
    prepare: production,
    rules: with_bytes,
    states: &[State::Passing, State::Over],
    sources: &COMMON_SOURCES,
    ..DEFAULT
};

/// Every source is denied by a rule.
pub(crate) const DENIED: Configuration = Configuration {
    name: "denied",
    rules: |bytecode, _| bytecode.set("0.0.0.0/0", Policy::DENIED),
    states: &[State::Over],
    ..SPECIAL
};

/// All rows except those of the [algorithms](crate::measure::algorithms).
pub(crate) const CONFIGURATIONS: [Configuration; 16] = [
    DEFAULT,
    Configuration { name: "front off", settings: |settings| Settings { cells: 0, ..settings }, ..DEFAULT },
    Configuration {
        name: "everything on",
        // Each source has a parent entry of its own, and an almost full map would evict some.
        settings: |settings| Settings {
            services: true,
            parents: true,
            lanes: true,
            pass_malformed: true,
            unknown: UNLIMITED,
            buckets: 4 * settings.buckets,
            ..settings
        },
        rules: everything,
        sources: FEW_SOURCES,
        ..DEFAULT
    },
    PRODUCTION,
    Configuration { name: "packets and bytes", rules: with_bytes, ..SPECIAL },
    Configuration { name: "no limit", rules: |bytecode, _| bytecode.set("default", Policy::UNLIMITED), ..SPECIAL },
    Configuration {
        name: "unknown sources limited",
        settings: |settings| Settings { unknown: UNLIMITED, ..settings },
        ..SPECIAL
    },
    Configuration {
        name: "short burst",
        rules: |bytecode, _| bytecode.set("default", per_second(100_000_000, 1_000_000)),
        ..SPECIAL
    },
    Configuration {
        name: "limit with a ban",
        settings: |settings| Settings { bans: true, ..settings },
        rules: with_ban,
        ..SPECIAL
    },
    Configuration {
        name: "limit with a ban, a source banned in each of 50 k IPv4 /16",
        settings: |settings| Settings { bans: true, ..settings },
        prepare: |bytecode, _| bans(bytecode, 50_000),
        rules: with_ban,
        ..SPECIAL
    },
    Configuration { name: "allowed", rules: |bytecode, _| bytecode.set("0.0.0.0/0", Policy::ALLOWED), ..SPECIAL },
    DENIED,
    Configuration {
        name: "100 prefix rules",
        prepare: |bytecode, sources| prefix_rules(bytecode, sources, 100),
        ..SPECIAL
    },
    Configuration {
        name: "10 k prefix rules",
        prepare: |bytecode, sources| prefix_rules(bytecode, sources, 10_000),
        ..SPECIAL
    },
    Configuration {
        name: "100 k prefix rules",
        prepare: |bytecode, sources| prefix_rules(bytecode, sources, 100_000),
        ..SPECIAL
    },
    Configuration {
        name: "1 M address rules",
        prepare: |bytecode, _| host_rules(bytecode, 1_000_000, ALLOWED_ID),
        ..SPECIAL
    },
];

impl Configuration {
    /// Creates the limiter of this row, for packets of this many sources.
    pub(crate) fn build(&self, sources: Sources) -> Result<Bytecode> {
        let buckets = match sources {
            Sources::Count(count) => count.next_power_of_two().max(names::BUCKETS_DEFAULT),
            Sources::Endless => names::BUCKETS_DEFAULT,
        };
        let settings = (self.settings)(Settings { buckets, ..Settings::default() });
        let mut bytecode = Bytecode::with_kernel_clock_and(settings);
        (self.prepare)(&mut bytecode, sources).map_err(|error| anyhow!("{}: {error}", self.name))?;
        Ok(bytecode)
    }
}

/// Sets services, parents, and rules of other sources.
fn everything(bytecode: &mut Bytecode, policy: &Policy) {
    let wide = per_second(100_000_000, 1_000_000);
    let parents = [Scope::Prefix(IPV4, Reverse(24)), Scope::All].map(|scope| ParentLimit { scope, policy: wide });
    bytecode.set(&format!("default udp/{PORT}"), RuleSpec { policy: *policy, parents: parents.to_vec() });
    bytecode.set("default tcp-syn", per_second(1, 1));
    bytecode.set("default", per_second(1, 1));
}

/// Sets a limit with a ban.
fn with_ban(bytecode: &mut Bytecode, policy: &Policy) {
    bytecode.set("default", Policy { ban: Ban { time: SECOND, most: SECOND, after: 1, reserved: 0 }, ..*policy });
}

/// Sets 100 prefixes that are allowed, 1,000 addresses that are denied, 10 bans, and limits of two services.
fn production(bytecode: &mut Bytecode, sources: Sources) -> Result<()> {
    prefix_rules(bytecode, sources, 100)?;
    host_rules(bytecode, 1_000, DENIED_ID)?;
    bans(bytecode, 10)?;
    bytecode.set("default udp/53", per_second(1_000, 1_000));
    bytecode.set("default tcp-syn", per_second(100, 100));
    Ok(())
}

/// The highest rate of bytes per second in the benchmark.
const MOST_BYTES: u64 = 50_000_000_000;

/// Sets a limit with one of bytes that large packets would reach as soon. Both have the same burst and clock.
fn with_bytes(bytecode: &mut Bytecode, policy: &Policy) {
    let limit = Limit::of(policy);
    let bytes = limit.packets.map(|rate| Rate { amount: MOST_BYTES.min(rate.amount * u64::from(BURST_FRAME)), ..rate });
    let policy = Limit { bytes, ..limit }.policy();
    // Without such a policy, passing packets are dropped, and the row is doubtful.
    bytecode.set("default", policy.unwrap_or(Policy::DENIED));
}
