//! The table `[fleet]`.

mod certificates;
mod engine;

use std::{fmt, str::FromStr, time::Duration};

use clap::ValueEnum;
use ratelimit_base::tables::{
    options,
    table::{Table, Value},
};
use ratelimit_common::fleet::share::Terms;
use rustix::system::uname;

use self::engine::EngineOptions;
use crate::way::Place;

/// The longest name of a host, in bytes.
const NAME: usize = 64;

/// The fleet that a file joins.
#[derive(Debug, Clone, PartialEq)]
pub struct Fleet {
    /// The engine.
    pub engine: Place,
    /// The name of this host.
    pub name: String,
    /// Time between two reports, and the least share.
    pub terms: Terms,
    /// Whether the operator has set the least share.
    pub has_least: bool,
    /// How much the demand of this host counts.
    pub weight: Weight,
    /// Which limits are shared.
    pub limits: Limits,
    /// Whether this host tells others of the sources that it denies.
    pub tells_bans: bool,
    /// What it takes from others.
    pub accepts: Accepts,
    /// With how much of its burst a new source begins.
    pub start: Start,
    /// What happens while the engine does not answer.
    pub on_loss: OnLoss,
}

impl Fleet {
    /// Returns the keys of the table that differ in another file. `engine` is everything about how the engine is reached.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<&'static str> {
        let least = |fleet: &Self| (fleet.has_least, fleet.terms.least);
        let accepts = |fleet: &Self| [fleet.accepts.limits, fleet.accepts.bans, fleet.accepts.rules];
        let all = [
            ("engine", self.engine != other.engine),
            ("name", self.name != other.name),
            ("period", self.terms.period != other.terms.period),
            ("min-share", least(self) != least(other)),
            ("weight", self.weight != other.weight),
            ("limits", self.limits != other.limits),
            ("share", self.tells_bans != other.tells_bans),
            ("accept", accepts(self) != accepts(other)),
            ("start", self.start != other.start),
            ("on-loss", self.on_loss != other.on_loss),
        ];
        all.into_iter().filter_map(|(key, differs)| differs.then_some(key)).collect()
    }

    /// Returns whether this host takes shares of limits.
    #[must_use]
    pub fn takes_shares(&self) -> bool {
        self.accepts.limits
    }

    /// Returns where the engine is, in words.
    #[must_use]
    pub fn engine_text(&self) -> String {
        self.engine.to_string()
    }

    /// Returns whether hosts divide the burst of a new source.
    #[must_use]
    pub fn divides_bursts(&self) -> bool {
        self.start == Start::Share && self.accepts.limits
    }
}

/// How much the demand of a host counts beside that of others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Weight {
    /// Always so much.
    Fixed(f64),
    /// Less while the host has too little CPU.
    Load,
}

/// Which limits are shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Limits {
    /// That of sources without a rule.
    Default,
    /// All that are token or leaky buckets.
    All,
}

/// With how much of its burst a source begins that a host has not seen before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Start {
    /// With the whole burst.
    Whole,
    /// With an equal part of it.
    Share,
}

/// What a host takes from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepts {
    /// Shares of limits.
    pub limits: bool,
    /// Sources that others deny.
    pub bans: bool,
    /// Shared rules.
    pub rules: bool,
}

/// What a host tells others besides its demand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Told {
    Bans,
}

/// What a host can take from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Accepted {
    Limits,
    Bans,
    Rules,
}

/// What happens while the engine does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnLoss {
    /// Each host admits its whole limit.
    Local,
    /// Each host admits an equal part of the limit.
    Share,
    /// Each host keeps the last share of each source, for ten minutes at most.
    Hold,
}

#[derive(Debug, clap::Args)]
struct FleetOptions {
    #[command(flatten)]
    engine: EngineOptions,
    #[arg(long)]
    name: Option<HostName>,
    #[arg(long, default_value = "200ms")]
    period: Period,
    #[arg(long, default_value = "1")]
    weight: Weight,
    #[arg(long, value_enum, default_value = "default")]
    limits: Limits,
    #[arg(long, value_enum)]
    share: Vec<Told>,
    #[arg(long, value_enum, default_value = "limits")]
    accept: Vec<Accepted>,
    #[arg(long, value_enum, default_value = "whole")]
    start: Start,
    #[arg(long, value_enum, default_value = "local")]
    on_loss: OnLoss,
    #[arg(long)]
    min_share: Option<Share>,
}

#[derive(Debug, Clone)]
struct HostName(String);

impl FromStr for HostName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_good = (1..=NAME).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        is_good
            .then(|| Self(text.to_owned()))
            .ok_or_else(|| format!("expected 1 to {NAME} letters, digits and punctuation marks"))
    }
}

#[derive(Debug, Clone, Copy)]
struct Period(Duration);

impl FromStr for Period {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let milliseconds = match text.strip_suffix("ms") {
            Some(number) => number.parse().ok(),
            None => text
                .strip_suffix('s')
                .and_then(|number| number.parse::<u64>().ok())
                .map(|seconds| seconds.saturating_mul(1_000)),
        };
        let in_range = milliseconds.filter(|milliseconds| (50..=10_000).contains(milliseconds));
        in_range
            .map(|milliseconds| Self(Duration::from_millis(milliseconds)))
            .ok_or("expected a time from 50ms to 10s, such as 200ms")
    }
}

impl FromStr for Weight {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let number = || text.parse().ok().filter(|weight: &f64| (0.01..=100.0).contains(weight));
        if text == "load" {
            Ok(Self::Load)
        } else {
            number().map(Self::Fixed).ok_or("expected a number from 0.01 to 100, or load")
        }
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(weight) => write!(f, "{weight}"),
            Self::Load => f.write_str("load"),
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Share(f64);

impl FromStr for Share {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let share = text.parse().ok().filter(|share: &f64| (1.0 / 65_536.0..=1.0).contains(share));
        share.map(Self).ok_or("expected a part from 0.000016 to 1")
    }
}

/// Reads the table from the top level of a file.
pub fn read(top: &Table<'_>) -> Option<Fleet> {
    let table = top.get("fleet").and_then(Value::table)?;
    let options = options::read::<FleetOptions>(&table, &[])?;
    let wrong = |key: &str, message: String| {
        if let Some(value) = table.get(key) {
            value.wrong(message);
        }
    };
    if table.get("accept").and_then(Value::option_words).is_some_and(|words| words.is_empty()) {
        wrong("accept", "the list is empty: add limits, bans or rules, or remove the table [fleet]".to_owned());
        return None;
    }
    let engine = engine::read(&table, options.engine)?;
    if matches!(engine, Place::Hosts(_)) {
        let told = "gossip tells no bans and no rules: remove them, or use a server";
        let late = "gossip finds out too late which shares were the last ones: expected local or share";
        let all = [
            ("share", !options.share.is_empty(), told),
            ("accept", options.accept.iter().any(|accepted| *accepted != Accepted::Limits), told),
            ("on-loss", options.on_loss == OnLoss::Hold, late),
        ];
        if let Some((key, _, why)) = all.into_iter().find(|(_, is_wrong, _)| *is_wrong) {
            wrong(key, why.to_owned());
            return None;
        }
    }
    let name = options.name.map_or_else(|| uname().nodename().to_string_lossy().into_owned(), |HostName(name)| name);
    let (Period(period), defaults) = (options.period, Terms::default());
    let least = options.min_share.map_or(defaults.least, |Share(least)| least);
    Some(Fleet {
        engine,
        name,
        terms: Terms { period: period.as_secs_f64(), least, ..defaults },
        has_least: options.min_share.is_some(),
        weight: options.weight,
        limits: options.limits,
        tells_bans: options.share.contains(&Told::Bans),
        accepts: Accepts {
            limits: options.accept.contains(&Accepted::Limits),
            bans: options.accept.contains(&Accepted::Bans),
            rules: options.accept.contains(&Accepted::Rules),
        },
        start: options.start,
        on_loss: options.on_loss,
    })
}
