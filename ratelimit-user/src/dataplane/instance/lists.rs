//! Changes lists together with the program: it looks at lists only if there are any.

use ratelimit_common::maps::control::FEATURE_LISTS;

use crate::dataplane::{
    Error, Instance,
    instance::edit,
    lists::{
        action::Action,
        change::{self, ListChange},
        listing,
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
    /// [`Self::upgrade`] and `check`. Nothing has changed then.
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
        let prefixes = change.set.iter().flat_map(|list| list.entries.iter());
        let deleted = yielding::met_by(Some(&pins), &self.tables, prefixes.map(Target::prefix))?;
        if !deleted.is_empty() {
            self.change(&Change { deleted, ..Change::default() }, &mut |_| {}, &|_| Ok(()))?;
        }
        Ok(())
    }
}
