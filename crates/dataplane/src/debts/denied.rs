//! The sources that this host denies by bans and by commands, for other hosts. It takes no lock, and changes nothing.

use std::collections::HashMap;

use ratelimit_base::text::prefix::Prefix;
use ratelimit_common::{
    identity::{class::ANY, service::Service, source::Source},
    limits::policy::DENIED_ID,
    rules::rule::{COMMAND, FILLED, NEVER, Rule},
};

use super::read;
use crate::{
    Error,
    rules::services::Services,
    sys::host,
    tables::{open::Tables, rule_maps},
};

/// Reads the denies of commands, and keeps them until the rules change.
#[derive(Debug, Default)]
pub struct Denied {
    /// The generation of the rules, and the time after which they are read again: one of them may have ended.
    read: Option<(u32, u64)>,
    denies: Vec<(Prefix, u64)>,
}

impl Denied {
    /// Returns the sources whose packets this host refuses whatever their service, each with the end of that in nanoseconds
    /// of the monotonic clock: [`NEVER`] if there is none.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses.
    pub fn read(&mut self, tables: &Tables) -> Result<HashMap<Prefix, u64>, Error> {
        let (generation, now) = (tables.control()?.generation, host::now());
        if self.read.is_none_or(|(of, until)| of != generation || now >= until) {
            self.denies = denies(tables, now)?;
            let next = self.denies.iter().map(|(_, end)| *end).min().unwrap_or(NEVER);
            self.read = Some((generation, next));
        }
        let mut all: HashMap<_, _> = self.denies.iter().copied().collect();
        for ban in read::bans(tables, &Services::read(tables)?)?.iter().filter(|ban| ban.service == Service::Any) {
            let end = all.entry(ban.source).or_default();
            *end = (*end).max(now.saturating_add(ban.left));
        }
        Ok(all)
    }
}

fn denies(tables: &Tables, now: u64) -> Result<Vec<(Prefix, u64)>, Error> {
    let rules = rule_maps::sources(tables)?.into_iter().chain(rule_maps::prefixes(tables)?);
    let deny = |(source, rule): (Source, Rule)| {
        let rule = rule.at(now)?;
        let is_deny = rule.policy == DENIED_ID && matches!(rule.origin, COMMAND | FILLED);
        is_deny.then_some((source, rule.expires))
    };
    let of_all = rules.filter(|(source, _)| source.class == u16::from(ANY)).filter_map(deny);
    Ok(of_all.map(|(source, end)| (Prefix::of(&source, source.prefix), end)).collect())
}
