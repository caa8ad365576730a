//! What lists must not do. A list of a file must not lose most of its entries at once. A list of a server must not shut out
//! an SSH session, or take so much space that a file is refused.

use ratelimit_base::text::prefix::Prefix;
use ratelimit_common::rules::rule::CONFIG;
use ratelimit_dataplane::{
    Error,
    error::ListError,
    lists::{
        change::{ListChange, RequestedList},
        entries::{self, Entries},
        listing::{self, Listing},
    },
    tables::open::Tables,
};

use crate::{config::PlannedList, ssh::ProtectedSessions};

/// What is left out of lists.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    /// Addresses of sessions. No entry contains one of them.
    sessions: Vec<Prefix>,
    /// Lists that stay as they are, and why: a predicate about the copy.
    pub(super) lists: Vec<(String, String)>,
}

impl LeftOut {
    /// Returns the lists that would lose most of their entries. The copies of servers are checked when they are fetched.
    pub(super) fn of_fallen(tables: &Tables, planned: &[PlannedList]) -> Result<Self, Error> {
        let running = listing::all(tables)?;
        let fall = |plan: &PlannedList| {
            let entries = plan.content.as_ref().ok()?.entries.len();
            let is_before = |list: &&Listing| {
                list.name == plan.name && list.origin == CONFIG && list.file.as_ref() == Some(&plan.file)
            };
            let before = usize::try_from(running.iter().find(is_before)?.entries()).ok()?;
            let fall = entries::fall(before, entries).filter(|_| plan.remote.is_none() && !plan.may_shrink)?;
            Some((plan.name.clone(), format!("{fall}: if this is right, add may-shrink = true")))
        };
        Ok(Self { lists: planned.iter().filter_map(fall).collect(), ..Self::default() })
    }

    /// Takes a failure of a change. Returns whether more is left out because of it, so that another change can succeed.
    pub(super) fn add(
        &mut self,
        error: &Error,
        change: &ListChange,
        planned: &[PlannedList],
        protected: &ProtectedSessions,
    ) -> bool {
        let is_remote =
            |list: &&RequestedList| planned.iter().any(|plan| plan.name == list.name && plan.remote.is_some());
        let remote: Vec<&RequestedList> = change.set.iter().filter(is_remote).collect();
        match error {
            Error::ShutOut { .. } if self.sessions.is_empty() => {
                self.sessions = protected.prefixes();
                !remote.is_empty()
            }
            Error::ShutOut { .. } => {
                let why = "would shut out an SSH session";
                self.lists.extend(remote.iter().map(|list| (list.name.clone(), why.to_owned())));
                !remote.is_empty()
            }
            Error::Lists(too_long @ ListError::TooLong { kind, .. }) => {
                let size = |list: &&&RequestedList| match *kind {
                    "addresses" => list.entries.addresses.len(),
                    _ => list.entries.prefixes.len(),
                };
                let largest = remote.iter().max_by_key(size);
                self.lists.extend(largest.map(|list| (list.name.clone(), format!("does not fit: {too_long}"))));
                largest.is_some()
            }
            _ => false,
        }
    }

    /// Returns what to set for a list. None if it stays as it is.
    pub(super) fn of(&self, plan: &PlannedList, mut list: RequestedList) -> Option<RequestedList> {
        if plan.remote.is_some() {
            self.sessions.iter().for_each(|session| list.entries.remove_around(session));
        }
        let stays = list.entries.is_empty() || self.lists.iter().any(|(name, _)| *name == list.name);
        (!stays).then_some(list)
    }

    /// Returns the entries of lists that contain the address of a session, in words.
    pub(super) fn spared(&self, planned: &[PlannedList]) -> Vec<String> {
        let of_list = |plan: &PlannedList| {
            let entries: Option<&Entries> = plan.content.as_ref().ok().map(|content| &content.entries);
            let around = |entry: &Prefix| self.sessions.iter().any(|session| entry.contains(session));
            let spared: Vec<String> =
                entries.into_iter().flat_map(Entries::iter).filter(around).map(|entry| entry.to_string()).collect();
            let text = format!(
                "list {}: {} left out, with the address of an SSH session; the next reload decides again",
                plan.name,
                spared.join(", ")
            );
            (!spared.is_empty()).then_some(text)
        };
        if self.sessions.is_empty() {
            return Vec::new();
        }
        planned.iter().filter(|plan| plan.remote.is_some()).filter_map(of_list).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::{path::PathBuf, time::Duration};

    use super::*;
    use crate::{
        config::{daemon::remote::Remote, lists::Content},
        controller::change::lists::requested,
        ssh::Session,
    };
    use ratelimit_dataplane::lists::action::Action;

    fn planned(name: &str, is_remote: bool, entries: &[&str]) -> PlannedList {
        let entries = Entries::of(entries.iter().map(|entry| entry.parse().unwrap()).collect());
        let address = "https://feeds.example/".parse().unwrap();
        let every = Duration::from_secs(60);
        let remote = Remote { address, every, most: 1, entries: 1, authorities: None, token: None };
        PlannedList {
            name: name.to_owned(),
            file: PathBuf::from("/run/lists").join(name),
            remote: is_remote.then_some(remote),
            action: Action::Deny,
            may_shrink: false,
            content: Ok(Content { entries, bad: Vec::new() }),
            metadata: None,
        }
    }

    /// Returns the change that is left.
    fn left(left_out: &LeftOut, planned: &[PlannedList]) -> ListChange {
        let set = planned.iter().filter_map(|plan| left_out.of(plan, requested(plan)?)).collect();
        ListChange { set, deleted: Vec::new() }
    }

    fn names(change: &ListChange) -> Vec<(&str, usize)> {
        change.set.iter().map(|list| (list.name.as_str(), list.entries.len())).collect()
    }

    #[test]
    fn lists_of_servers_that_do_not_fit_are_left_out_the_largest_first() {
        let planned = [
            planned("own", false, &["2001:db8::/32", "2001:db9::/32", "2001:dba::/32", "192.0.2.1"]),
            planned("small", true, &["2001:db8::/32", "192.0.2.1", "192.0.2.3"]),
            planned("large", true, &["2001:db8::/32", "2001:dba::/32", "192.0.2.1"]),
        ];
        let (mut left_out, protected) = (LeftOut::default(), ProtectedSessions::default());
        let error = || Error::Lists(ListError::TooLong { kind: "prefixes", found: 5, most: 4 });
        let mut change = left(&left_out, &planned);
        assert!(left_out.add(&error(), &change, &planned, &protected));
        change = left(&left_out, &planned);
        assert_eq!(names(&change), [("own", 4), ("small", 3)]);
        assert!(left_out.add(&error(), &change, &planned, &protected));
        change = left(&left_out, &planned);
        assert_eq!(names(&change), [("own", 4)]);
        assert!(!left_out.add(&error(), &change, &planned, &protected));
        let (name, why) = &left_out.lists[0];
        assert_eq!(name, "large");
        assert!(why.starts_with("does not fit: all lists together would have 5 prefixes, at most 4 are"), "{why}");
        assert!(!left_out.add(
            &Error::NotAttached(PathBuf::new()),
            &left(&LeftOut::default(), &planned),
            &planned,
            &protected
        ));
    }

    #[test]
    fn lists_of_servers_have_no_entry_around_a_session() {
        let planned = [
            planned("own", false, &["10.9.0.0/24"]),
            planned("drop", true, &["10.9.0.0/24", "192.0.2.1"]),
            planned("other", true, &["10.9.0.5"]),
        ];
        let session = Session { peer: "10.9.0.5".parse().unwrap(), port: 22 };
        let (mut left_out, protected) = (LeftOut::default(), ProtectedSessions::new([session], ""));
        let error = || Error::ShutOut { session: String::new(), fate: String::new(), way_out: String::new() };
        assert!(left_out.spared(&planned).is_empty());
        let mut change = left(&left_out, &planned);
        assert!(left_out.add(&error(), &change, &planned, &protected));
        change = left(&left_out, &planned);
        assert_eq!(names(&change), [("own", 1), ("drop", 1)]);
        let spared = left_out.spared(&planned);
        let end = "left out, with the address of an SSH session; the next reload decides again";
        assert_eq!(spared, [format!("list drop: 10.9.0.0/24 {end}"), format!("list other: 10.9.0.5 {end}")]);
        // Then the list of the operator is the reason.
        assert!(left_out.add(&error(), &change, &planned, &protected));
        change = left(&left_out, &planned);
        assert_eq!(names(&change), [("own", 1)]);
        assert!(!left_out.add(&error(), &change, &planned, &protected));
    }
}
