//! A change ends the bans of the sources that it names.

use std::collections::{HashMap, HashSet};

use ratelimit_common::{identity::source::Source, maps::control::FEATURE_BANS, rules::rule::Rule};

use crate::{
    Error,
    rules::batch::free_space::{Entry, FEW, Plan},
    tables::open::Tables,
};

/// Returns the bans in force that new rules end.
pub(super) fn replaced(tables: &Tables, plan: &Plan, now: u64) -> Result<Vec<Entry>, Error> {
    if !ends_some(tables, plan)? {
        return Ok(Vec::new());
    }
    let written = || plan.sources.iter().chain(&plan.prefixes).map(|(source, _)| *source);
    let in_force = |source: Source, ban: Rule| Some((source, ban.at(now)?));
    if written().nth(FEW).is_some() {
        let all: HashMap<Source, Rule> = tables.bans()?.all().into_iter().collect();
        return Ok(written().filter_map(|source| in_force(source, *all.get(&source)?)).collect());
    }
    let mut found = Vec::new();
    for source in written() {
        found.extend(tables.ban(&source)?.and_then(|ban| in_force(source, ban)));
    }
    Ok(found)
}

/// Lifts the bans of the sources that the operator has named.
pub(super) fn lift(tables: &Tables, plan: &Plan) -> Result<(), Error> {
    if !ends_some(tables, plan)? {
        return Ok(());
    }
    let written = plan.sources.iter().chain(&plan.prefixes).map(|(source, _)| source);
    let deleted = plan.deleted.iter().map(|(source, _)| source);
    let mut named: HashSet<Source> = written.chain(deleted).chain(&plan.lifted).copied().collect();
    let bans = tables.bans()?;
    if named.len() > FEW {
        let banned: HashSet<Source> = bans.all().into_iter().map(|(source, _)| source).collect();
        named.retain(|source| banned.contains(source));
    }
    named.iter().for_each(|source| bans.lift(source));
    Ok(())
}

/// Without this feature, no ban is in force, and the program sets none.
fn ends_some(tables: &Tables, plan: &Plan) -> Result<bool, Error> {
    Ok(!plan.keeps_bans && tables.control()?.features & FEATURE_BANS != 0)
}
