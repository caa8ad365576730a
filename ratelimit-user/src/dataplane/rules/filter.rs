//! Maintains the filter by which the program skips sources that no rule matches.

use ratelimit_common::{
    identity::{filter::Filter, source::Source},
    rules::rule::Rule,
};

use crate::dataplane::{
    Error,
    error::Tried as _,
    tables::{open::Tables, rule_maps},
};

/// Rules of each kind up to which a deletion rebuilds the filter. With more rules, it keeps matching more sources than necessary
/// until the next search for expired rules.
const FEW: usize = 4_096;

/// Adds prefixes before their rules are written, so that no packet misses a rule.
pub(crate) fn add<'a>(tables: &mut Tables, prefixes: impl Iterator<Item = &'a Source>) -> Result<(), Error> {
    let mut prefixes = prefixes.peekable();
    if prefixes.peek().is_none() {
        return Ok(());
    }
    let before = tables.rule_filter.open()?.get(&0, 0).tried("cannot read the filter of rules")?;
    let mut filter = before;
    prefixes.for_each(|prefix| filter.add(prefix));
    if filter == before { Ok(()) } else { write(tables, filter) }
}

/// Rebuilds the filter if there are few rules.
pub(crate) fn renew_if_few(tables: &mut Tables) -> Result<(), Error> {
    let Some(sources) = rule_maps::few_sources(tables, FEW)? else { return Ok(()) };
    let Some(prefixes) = rule_maps::few_prefixes(tables, FEW)? else { return Ok(()) };
    renew_from(tables, &sources, &prefixes)
}

/// Rebuilds the filter from all rules.
pub(crate) fn renew(tables: &mut Tables) -> Result<(), Error> {
    let (sources, prefixes) = (rule_maps::sources(tables)?, rule_maps::prefixes(tables)?);
    renew_from(tables, &sources, &prefixes)
}

fn renew_from(tables: &mut Tables, sources: &[(Source, Rule)], prefixes: &[(Source, Rule)]) -> Result<(), Error> {
    let mut filter = Filter::default();
    sources.iter().chain(prefixes).for_each(|(source, _)| filter.add(source));
    add_bans(tables, &mut filter)?;
    write(tables, filter)
}

fn add_bans(tables: &Tables, filter: &mut Filter) -> Result<(), Error> {
    tables.bans()?.iter().for_each(|(source, _)| filter.add(source));
    Ok(())
}

/// Writes the filter. The program may ban a source meanwhile, whose bit would be lost. So bans are read until none is
/// missing.
fn write(tables: &mut Tables, mut filter: Filter) -> Result<(), Error> {
    loop {
        tables.rule_filter.open_mut()?.set(0, filter, 0).tried("cannot write the filter of rules")?;
        let written = filter;
        add_bans(tables, &mut filter)?;
        if filter == written {
            return Ok(());
        }
    }
}
