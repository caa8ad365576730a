//! Keeps the filter that tells the program which sources a rule may concern.

use ratelimit_common::identity::{filter::Filter, source::Source};

use crate::dataplane::{Error, error::Tried as _, tables::open::Tables};

/// Rules up to which the filter is made anew when one is deleted. Beyond that it only looks at more than it must, until rules are
/// searched for those that have ended.
const FEW: usize = 4_096;

/// Notes that there is a rule for a prefix. Before the rule itself, so that nobody passes by it.
pub(crate) fn add(tables: &mut Tables, prefix: &Source) -> Result<(), Error> {
    let mut filter = read(tables)?;
    let before = filter;
    filter.add(prefix);
    if filter == before { Ok(()) } else { write(tables, filter) }
}

/// The same of many prefixes.
pub(crate) fn add_all<'a>(tables: &mut Tables, prefixes: impl Iterator<Item = &'a Source>) -> Result<(), Error> {
    let mut filter = read(tables)?;
    prefixes.for_each(|prefix| filter.add(prefix));
    write(tables, filter)
}

/// Forgets where no rule is left, if that does not take long.
pub(crate) fn forget(tables: &mut Tables) -> Result<(), Error> {
    if tables.source_rules.keys().take(FEW).count() + tables.prefix_rules.keys().take(FEW).count() < FEW {
        renew(tables)?;
    }
    Ok(())
}

/// Makes it anew from all rules.
pub(crate) fn renew(tables: &mut Tables) -> Result<(), Error> {
    let mut filter = Filter::default();
    for (source, _) in tables.source_rules()? {
        filter.add(&source);
    }
    add_bans(tables, &mut filter)?;
    for (prefix, _) in tables.prefix_rules()? {
        filter.add(&prefix);
    }
    write(tables, filter)
}

fn add_bans(tables: &Tables, filter: &mut Filter) -> Result<(), Error> {
    tables.bans()?.iter().for_each(|(source, _)| filter.add(source));
    Ok(())
}

fn read(tables: &Tables) -> Result<Filter, Error> {
    tables.rule_filter.get(&0, 0).tried("cannot read the filter of rules")
}

/// Writes it. The program may ban somebody meanwhile, whose bit would be gone: so bans are looked through until none is missing.
fn write(tables: &mut Tables, mut filter: Filter) -> Result<(), Error> {
    loop {
        tables.rule_filter.set(0, filter, 0).tried("cannot write the filter of rules")?;
        let written = filter;
        add_bans(tables, &mut filter)?;
        if filter == written {
            return Ok(());
        }
    }
}
