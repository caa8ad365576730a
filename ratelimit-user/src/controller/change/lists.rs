//! Compares the lists of a file with those in force.

use ratelimit_common::rules::rule::{CONFIG, NEVER};

use crate::{
    config::PlannedList,
    dataplane::{
        Error,
        lists::{
            change::{ListChange, RequestedList},
            entries::Entries,
            listing::{self, Listing},
        },
        sys::host,
        tables::open::Tables,
    },
};

/// Returns the change that makes these the lists of the file, and the change that undoes it. None if they are in force.
pub(super) fn difference(tables: &Tables, planned: &[PlannedList]) -> Result<Option<[ListChange; 2]>, Error> {
    let running = listing::all(tables)?;
    let is_in_force = |plan: &&PlannedList| running.iter().any(|list| is_same(list, plan));
    let set: Vec<_> = planned.iter().filter(|plan| !is_in_force(plan)).map(requested).collect();
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

fn is_same(list: &Listing, plan: &PlannedList) -> bool {
    let is_lasting = list.origin == CONFIG && list.expires_in.is_none();
    let is_alike = list.name == plan.name && list.action == plan.action && list.file.as_ref() == Some(&plan.file);
    is_lasting && is_alike && list.digest == plan.entries.digest()
}

fn requested(plan: &PlannedList) -> RequestedList {
    let PlannedList { name, file, action, entries, .. } = plan.clone();
    RequestedList { name, entries, action, expires: NEVER, origin: CONFIG, file: Some(file) }
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
