//! Totals since an earlier output of the command. So each operator can count from any moment.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use serde::Deserialize;

use super::report::{SCHEMA, Status};
use crate::cli::print::output::Traffic;

/// The parts of the earlier output that have totals.
#[derive(Debug, Deserialize)]
pub(super) struct Earlier {
    schema: u32,
    instance: String,
    since_at: Option<Timestamp>,
    read_at: Timestamp,
    passed: Traffic,
    dropped: Traffic,
    reasons: Reasons,
    shadow: Shadow,
}

type Reasons = BTreeMap<String, Traffic>;

#[derive(Debug, Deserialize)]
struct Shadow {
    would_drop: Traffic,
    reasons: Reasons,
}

impl Earlier {
    /// Reads a file with the JSON output.
    pub(super) fn read(file: &Path) -> Result<Self> {
        let name = file.display();
        let text = fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
        let earlier: Self = serde_json::from_str(&text)
            .with_context(|| format!("{name} is no output of `ratelimit status -j`: write it with `> {name}`"))?;
        ensure!(earlier.schema == SCHEMA, "{name} is of another version of ratelimit: write the file again");
        ensure!(earlier.since_at.is_none(), "{name} has differences: write it without --since");
        Ok(earlier)
    }

    /// Takes the earlier totals from those of now.
    pub(super) fn take_from(&self, status: &mut Status) -> Result<()> {
        let taken = if self.instance == status.instance { self.try_take(status) } else { None };
        taken.context("the instance was attached anew since the file was written, so write the file again")?;
        status.since_at = Some(self.read_at);
        Ok(())
    }

    /// Returns None if a total is lower than before.
    fn try_take(&self, status: &mut Status) -> Option<()> {
        status.passed = status.passed.checked_sub(self.passed)?;
        status.dropped = status.dropped.checked_sub(self.dropped)?;
        status.shadow.would_drop = status.shadow.would_drop.checked_sub(self.shadow.would_drop)?;
        take(&mut status.reasons, &self.reasons)?;
        take(&mut status.shadow.reasons, &self.shadow.reasons)
    }
}

/// Reasons of another version are left out.
fn take(now: &mut BTreeMap<&'static str, Traffic>, earlier: &Reasons) -> Option<()> {
    now.iter_mut().try_for_each(|(reason, traffic)| {
        *traffic = traffic.checked_sub(earlier.get(*reason).copied().unwrap_or_default())?;
        Some(())
    })
}
