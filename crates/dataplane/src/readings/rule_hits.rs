//! Packets of the tracked sources, by the rule that decides about each source now.

use std::collections::{BTreeSet, HashMap};

use ratelimit_base::text::prefix::Prefix;
use ratelimit_common::{
    buckets::bucket::Bucket,
    identity::{
        class::{Class, Classes},
        source::Source,
    },
    limits::policy::{BANNED_ID, PolicyId},
    reason::Count,
    rules::{
        precedence::{self, Rules},
        rule::Rule,
        rule_match::Match,
    },
};

use super::tracked;
use crate::{
    Error,
    rules::{
        resolve,
        services::Services,
        target::{Sources, Target},
    },
    sys::host,
    tables::{listed, open::Tables, rule_maps, spared},
};

/// Packets and bytes of sources that a rule decides about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hits {
    /// What passed.
    pub passed: Count,
    /// What was dropped.
    pub dropped: Count,
    /// What passed in shadow.
    pub would_drop: Count,
    /// Whether the last two are estimates.
    pub are_refused_sampled: bool,
}

impl Hits {
    fn add(&mut self, bucket: &Bucket) {
        let passed = Count { packets: bucket.passed(), bytes: bucket.passed_bytes };
        for (sum, more) in [
            (&mut self.passed, passed),
            (&mut self.dropped, bucket.dropped()),
            (&mut self.would_drop, bucket.would_drop()),
        ] {
            let (packets, bytes) = (sum.packets.saturating_add(more.packets), sum.bytes.saturating_add(more.bytes));
            *sum = Count { packets, bytes };
        }
        self.are_refused_sampled |= bucket.is_sampled();
    }
}

/// Returns what each rule has decided, if it has decided anything. Packets count for the rule that decides about their
/// source now, also if another one did before. Those of a source that a limit has banned count for the ban and for that
/// limit.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn of_rules(tables: &Tables) -> Result<HashMap<Target, Hits>, Error> {
    let (services, known, now) = (Services::read(tables)?, Known::read(tables)?, host::now());
    let mut hits = HashMap::<Target, Hits>::new();
    let mut outcome = Ok(());
    tracked::each(tables, |source, bucket| {
        if !resolve::is_source(&source, &bucket) {
            return;
        }
        let (_, classes) = services.of_key(&source);
        match known.decide(&source, classes, now) {
            Ok(rules) => rules.into_iter().flatten().for_each(|(sources, class)| {
                let service = services.of_class(class).unwrap_or_default();
                hits.entry(Target { sources, service }).or_default().add(&bucket);
            }),
            Err(error) => outcome = Err(error),
        }
    })?;
    outcome.map(|()| hits)
}

/// All rules, read once. Each source would need several system calls otherwise.
struct Known<'a> {
    tables: &'a Tables,
    bans: HashMap<Source, Rule>,
    sources: HashMap<Source, Rule>,
    prefixes: HashMap<Source, Rule>,
    /// The lengths of prefixes with rules, by class and family.
    lengths: HashMap<(u16, u8), BTreeSet<u8>>,
    defaults: Vec<PolicyId>,
    has_lists: bool,
}

impl<'a> Known<'a> {
    fn read(tables: &'a Tables) -> Result<Self, Error> {
        let prefixes = rule_maps::prefixes(tables)?;
        let mut lengths = HashMap::<_, BTreeSet<u8>>::new();
        for (source, _) in &prefixes {
            lengths.entry((source.class, source.family)).or_default().insert(source.prefix);
        }
        Ok(Self {
            tables,
            bans: tables.bans()?.all().into_iter().collect(),
            sources: rule_maps::sources(tables)?.into_iter().collect(),
            prefixes: prefixes.into_iter().collect(),
            lengths,
            defaults: tables.classes.all()?.iter().map(|entry| entry.default_policy).collect(),
            has_lists: tables.control()?.next_lists() != 0,
        })
    }

    /// Returns the sources and the class of the rule that decides about a source, and of the limit that has banned it.
    /// None if a list does, or nothing.
    fn decide(&self, source: &Source, classes: Classes, now: u64) -> Result<[Option<(Sources, Class)>; 2], Error> {
        let (decides, is_ban) = self.best(source, classes, true, now)?;
        let has_banned = if is_ban { self.best(source, classes, false, now)?.0 } else { None };
        Ok([decides, has_banned])
    }

    /// Returns the rule that decides with or without bans, and whether that is a ban.
    fn best(
        &self,
        source: &Source,
        classes: Classes,
        with_bans: bool,
        now: u64,
    ) -> Result<(Option<(Sources, Class)>, bool), Error> {
        let rule = |class| precedence::of_class(self, source, class, now);
        let ban = |class| if with_bans { precedence::of_bans(self, source, class, now) } else { Ok(Match::NONE) };
        let list = if self.has_lists { listed::of_source(self.tables, source, now)? } else { Match::NONE };
        let (best, class) = precedence::best(classes, true, rule, ban, || Ok::<_, Error>(list))?;
        let is_ban = best.resolution().policy() == BANNED_ID;
        if best == Match::NONE || best == list && !is_ban {
            return Ok((None, false));
        }
        let bits = if is_ban { source.prefix } else { best.prefix() };
        let sources = if best.is_default() {
            Sources::Default
        } else {
            Sources::Prefix(Prefix::of(&source.shortened(bits), bits))
        };
        Ok((Some((sources, class)), is_ban))
    }
}

impl Rules for Known<'_> {
    type Error = Error;

    fn is_spared(&self, source: &Source) -> Result<bool, Error> {
        spared::has(self.tables, source)
    }

    fn ban(&self, source: &Source) -> Result<Option<Rule>, Error> {
        Ok(self.bans.get(source).copied())
    }

    fn source_rule(&self, source: &Source) -> Result<Option<Rule>, Error> {
        Ok(self.sources.get(source).copied())
    }

    fn prefix_rule(&self, source: &Source, bits: u8) -> Result<Option<Rule>, Error> {
        let lengths = self.lengths.get(&(source.class, source.family)).into_iter();
        let mut rules = lengths.flat_map(|lengths| lengths.range(..=bits).rev());
        Ok(rules.find_map(|length| self.prefixes.get(&source.shortened(*length)).copied()))
    }

    fn default_policy(&self, class: Class) -> Result<PolicyId, Error> {
        Ok(self.defaults.get(usize::from(class)).copied().unwrap_or_default())
    }
}
