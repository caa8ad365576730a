//! Rules of callers that one server keeps for itself.

use std::{collections::BTreeSet, path::Path};

use ratelimit_base::{
    notify::journal::{self, Level},
    text::excerpt::message,
};

use super::{
    audit::{self, Audit},
    entry::Entry,
    file::FileStore,
    in_force::InForce,
    store::{ReadLog, Store, StoreError, Write},
    teams::Teams,
};
use crate::config::stored::Contents;

/// Lines about rules that are left out, each with its problem.
const LINES: usize = 20;

/// A file with rules, and the log of their changes beside it.
pub(super) struct Local {
    file: FileStore,
    audit: Audit,
    /// Rules of the file that are not in force.
    left_out: BTreeSet<String>,
}

impl Local {
    /// Takes a file, which need not exist, for this server. Returns its rules too, or why they cannot be read.
    pub(super) fn open(path: &Path) -> Result<(Self, Result<Contents, StoreError>), StoreError> {
        let file = FileStore::open(path)?;
        let contents = file.read();
        let own = contents.as_ref().ok().filter(|contents| contents.fleet.is_none());
        let audit = Audit::open(path, own.map(|contents| contents.version));
        Ok((Self { file, audit, left_out: BTreeSet::new() }, contents))
    }
}

impl Store for Local {
    fn leave_out(&mut self, in_force: &InForce) {
        let is_new = |(name, _): &(&str, &str)| !self.left_out.contains(*name);
        for (_, problem) in in_force.left_out().filter(is_new).take(LINES) {
            let text = format!("{problem}: the rule is not in force, and stays in the file of rules");
            journal::say(Level::Warning, &message(&text));
        }
        let others = in_force.left_out().filter(is_new).count().saturating_sub(LINES);
        if others > 0 {
            let text = format!("{others} other rules are not in force, and stay in the file of rules");
            journal::say(Level::Warning, &text);
        }
        self.left_out = in_force.left_out().map(|(name, _)| name.to_owned()).collect();
    }

    fn known(&self) -> Result<Contents, StoreError> {
        // The file could have been changed by hand.
        self.file.read()
    }

    fn version(&self) -> u64 {
        self.audit.version()
    }

    fn write(&mut self, write: Write<'_>, entry: &Entry<'_>, teams: &Teams) -> Result<(), StoreError> {
        let added = self.audit.add(entry, teams);
        let added = added.map_err(|error| StoreError::Unusable(format!("the log of changes: {error}")))?;
        self.file.write(write).inspect_err(|_| {
            // At the next start, the log would say otherwise that this change is undone.
            let _ = added.undo();
        })
    }

    fn log(&self, _: &Teams) -> Result<ReadLog, StoreError> {
        let unread = |error: std::io::Error| StoreError::Unusable(format!("the log of changes: {error}"));
        let files = self.audit.files().map_err(unread)?;
        Ok(Box::new(move |most, wanted| audit::last(files, most, wanted).map_err(unread)))
    }
}
