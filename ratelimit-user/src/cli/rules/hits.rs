//! What rules have decided, beside the rules in lists.

use std::collections::HashMap;

use anyhow::Result;
use ratelimit_dataplane::{
    readings::rule_hits::{self, Hits},
    rules::target::Target,
    tables::open::Tables,
};

use crate::cli::print::source_row::{Describe, HitsRow};

#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Arguments {
    /// Count the packets of the tracked sources that each rule decides about now. A source that is no longer tracked is
    /// forgotten, with its packets
    #[arg(long)]
    hits: bool,
}

/// The hits of all rules, if they were requested.
pub(super) struct OfRules<'a>(Option<(Describe<'a>, HashMap<Target, Hits>)>);

impl<'a> OfRules<'a> {
    pub(super) fn read(arguments: Arguments, tables: &'a Tables) -> Result<Self> {
        let read = || anyhow::Ok((Describe::with(tables)?, rule_hits::of_rules(tables)?));
        Ok(Self(arguments.hits.then(read).transpose()?))
    }

    /// Returns the hits of a rule. A rule below a temporary one has none now.
    pub(super) fn of(&self, target: Target, is_covered: bool) -> Option<HitsRow> {
        let (describe, all) = self.0.as_ref()?;
        let hits = all.get(&target).filter(|_| !is_covered).copied().unwrap_or_default();
        Some(describe.hits(&hits))
    }
}
