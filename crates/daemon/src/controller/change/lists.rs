//! Compares the lists of a file with those in force.

use ratelimit_common::rules::rule::{CONFIG, NEVER};
use ratelimit_dataplane::{
    Error, Instance,
    lists::{
        change::{ListChange, RequestedList},
        entries::Entries,
        listing::{self, Listing},
    },
    sys::host,
    tables::open::Tables,
};

use super::{left_out::LeftOut, undo::Done};
use crate::{
    config::PlannedList,
    controller::socket::request::UnusableList,
    ssh::{Guard, ProtectedSessions},
};

/// Makes the first of these changes, which [`difference`] has returned. If a list of a server is why that fails, makes
/// another change without it, or without its entries around sessions, and adds that to what is left out. Returns the names
/// of changed lists.
///
/// # Errors
///
/// Fails like [`Instance::change_lists`]. Nothing has changed then.
pub(super) fn change(
    instance: &mut Instance,
    planned: &[PlannedList],
    first: [ListChange; 2],
    (guard, protected): (&Guard, &ProtectedSessions),
    left_out: &mut LeftOut,
    done: &mut Done,
) -> Result<Vec<String>, Error> {
    let mut next = Some(first);
    while let Some([change, back]) = next {
        match done.change_lists(instance, &change, back, &|tables| guard.check_lists(tables)) {
            Ok(()) => {
                let set = change.set.into_iter().map(|list| list.name);
                return Ok(set.chain(change.deleted).collect());
            }
            // Each time, more is left out.
            Err(error) if left_out.add(&error, &change, planned, protected) => {}
            Err(error) => return Err(error),
        }
        next = difference(&instance.tables, planned, left_out)?;
    }
    Ok(Vec::new())
}

/// Returns the change that makes these the lists of the file, and the change that undoes it. None if they are in force.
/// A list whose file cannot be used stays as it is.
pub(super) fn difference(
    tables: &Tables,
    planned: &[PlannedList],
    left_out: &LeftOut,
) -> Result<Option<[ListChange; 2]>, Error> {
    let running = listing::all(tables)?;
    let is_in_force = |wanted: &RequestedList| running.iter().any(|list| is_same(list, wanted));
    let wanted = planned.iter().filter_map(|plan| left_out.of(plan, requested(plan)?));
    let set: Vec<_> = wanted.filter(|wanted| !is_in_force(wanted)).collect();
    let is_gone = |list: &&Listing| list.origin == CONFIG && planned.iter().all(|plan| plan.name != list.name);
    let deleted: Vec<String> = running.iter().filter(is_gone).map(|list| list.name.clone()).collect();
    if set.is_empty() && deleted.is_empty() {
        return Ok(None);
    }
    let changes = |list: &&Listing| deleted.contains(&list.name) || set.iter().any(|other| other.name == list.name);
    let before = running.iter().filter(changes).map(|list| restored(tables, list)).collect::<Result<_, _>>()?;
    let is_new = |list: &&RequestedList| running.iter().all(|other| other.name != list.name);
    let created = set.iter().filter(is_new).map(|list| list.name.clone()).collect();
    Ok(Some([ListChange { set, deleted }, ListChange { set: before, deleted: created }]))
}

/// Returns the lists whose files cannot be used, and those of servers that stay as they are.
pub(super) fn unusable(
    tables: &Tables,
    planned: &[PlannedList],
    left_out: &LeftOut,
) -> Result<Vec<UnusableList>, Error> {
    if left_out.lists.is_empty() && planned.iter().all(|plan| plan.content.is_ok()) {
        return Ok(Vec::new());
    }
    let why = |name: &String| left_out.lists.iter().find(|(other, _)| other == name).map(|(_, why)| why);
    let running = listing::all(tables)?;
    let unusable = planned.iter().filter_map(|PlannedList { name, file, content, .. }| {
        Some(UnusableList {
            name: name.clone(),
            file: file.display().to_string(),
            reason: content.as_ref().err().or_else(|| why(name))?.clone(),
            is_in_force: running.iter().any(|list| list.name == *name),
        })
    });
    Ok(unusable.collect())
}

fn is_same(list: &Listing, wanted: &RequestedList) -> bool {
    let is_lasting = list.origin == CONFIG && list.expires_in.is_none();
    let is_alike = list.name == wanted.name && list.action == wanted.action && list.file == wanted.file;
    is_lasting && is_alike && list.digest == wanted.entries.digest()
}

/// Returns what to set for a list. None if its file cannot be used.
pub fn requested(plan: &PlannedList) -> Option<RequestedList> {
    let PlannedList { name, file, action, content, .. } = plan.clone();
    let entries = content.ok()?.entries;
    Some(RequestedList { name, entries, action, expires: NEVER, origin: CONFIG, file: Some(file) })
}

/// Returns a list as it is in force.
fn restored(tables: &Tables, list: &Listing) -> Result<RequestedList, Error> {
    let end = |left: std::time::Duration| host::now().saturating_add(u64::try_from(left.as_nanos()).unwrap_or(NEVER));
    Ok(RequestedList {
        name: list.name.clone(),
        entries: Entries::of(listing::entries(tables, list)?),
        action: list.action.clone(),
        expires: list.expires_in.map_or(NEVER, end),
        origin: list.origin,
        file: list.file.clone(),
    })
}
