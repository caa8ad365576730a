//! Changes lists together with the program: it looks at lists only if there are any.

use ratelimit_common::{maps::control::FEATURE_LISTS, rules::list::List};

use crate::{
    dataplane::{
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
        sys::host,
        tables::open::Tables,
    },
    text::prefix::Prefix,
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
        self.make_way(change.set.iter().flat_map(|list| list.entries.iter()))
    }

    /// Makes a list deny these entries until its end. If it is in force, only the entries that differ are written.
    ///
    /// # Errors
    ///
    /// Those of [`Self::change_lists`]. Nothing has changed then.
    pub fn renew_list(
        &mut self,
        list: RequestedList,
        check: &dyn Fn(&Tables) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let now = host::now();
        let running = listing::in_force(&self.tables)?.into_iter().find(|running| running.name() == list.name);
        let is_alike = |list: &List| list.denies() && !list.is_over(now);
        let Some(running) = running.filter(|running| is_alike(&running.list)) else {
            return self.change_lists(&ListChange { set: vec![list], ..ListChange::default() }, check);
        };
        let pins = self.pins().to_owned();
        list_edit::apply(Some(&pins), &mut self.tables, &running, &list, check)?;
        self.make_way(list.entries.iter())
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
