//! Changes lists together with the program: it looks at lists only if there are any.

use ratelimit_base::text::prefix::Prefix;
use ratelimit_common::maps::control::FEATURE_LISTS;

use crate::{
    Error, Instance,
    instance::edit,
    lists::{
        action::Action,
        change::{self, ListChange, RequestedList},
        edit as list_edit, listing,
    },
    rules::{
        batch::{Change, yielding},
        policies,
        target::Target,
    },
    tables::open::Tables,
};

impl Instance {
    /// Makes a change of lists, and loads a program with the features that they need. `check` decides before the change
    /// acts whether it does.
    ///
    /// # Errors
    ///
    /// [`Error::Lists`] or [`Error::TooManyPolicies`] if there is no space, those of [`Self::check`],
    /// [`Self::upgrade`] and `check`. Nothing has changed then. If only a limit of an application cannot be deleted, the
    /// lists are in force all the same.
    pub fn change_lists(
        &mut self,
        change: &ListChange,
        check: &dyn Fn(&Tables) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut needed = if change.set.is_empty() { 0 } else { FEATURE_LISTS };
        for list in &change.set {
            if let Action::Limit(spec) = &list.action {
                // A list limits sources of both families, as a default does. It is not one, so it has a lane.
                self.check(Target::DEFAULT, spec)?;
                needed |= edit::needs_of_rules(spec);
            }
        }
        let before = listing::all(&self.tables)?;
        let changes = |name: &String| change.deleted.contains(name) || change.set.iter().any(|list| list.name == *name);
        let mut freed = if before.iter().any(|list| changes(&list.name)) { policies::OF_RULES } else { 0 };
        edit::look_at(self, needed)?;
        let pins = self.pins().to_owned();
        let outcome = change::apply(Some(&pins), &mut self.tables, change, check);
        if outcome.is_err() {
            freed |= needed;
        }
        edit::spare(self, freed);
        outcome?;
        // Limits of applications give way to lists of an operator, but not to those that fail.
        let of_operator = change.set.iter().filter(|list| list.is_of_operator());
        self.make_way(of_operator.flat_map(|list| list.entries.iter()))
    }

    /// Makes a list of the daemon's own deny these entries until its end. If it is in force, only the entries that differ
    /// are written. SSH sessions are not checked, so the caller leaves out their addresses. With `rebuilds`, the filter of
    /// sources follows removed entries, however many entries there are.
    ///
    /// # Errors
    ///
    /// Those of [`Self::change_lists`] and [`list_edit::apply`].
    pub fn renew_list(&mut self, list: RequestedList, rebuilds: bool) -> Result<(), Error> {
        let pins = self.pins().to_owned();
        if list_edit::apply(Some(&pins), &mut self.tables, &list, rebuilds)? {
            return Ok(());
        }
        self.change_lists(&ListChange { set: vec![list], ..ListChange::default() }, &|_| Ok(()))
    }

    /// Deletes limits of applications that lists of an operator outrank.
    fn make_way(&mut self, prefixes: impl Iterator<Item = Prefix> + Clone) -> Result<(), Error> {
        let pins = self.pins().to_owned();
        let deleted = yielding::met_by(Some(&pins), &self.tables, prefixes.map(Target::prefix))?;
        if !deleted.is_empty() {
            self.change(&Change { deleted, ..Change::default() }, &mut |_| {}, &|_| Ok(()))?;
        }
        Ok(())
    }
}
