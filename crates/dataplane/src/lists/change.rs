//! Changes lists: all of a change, or none.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
};

use ratelimit_common::{
    identity::source::Source,
    limits::policy::{Policy, PolicyId},
    maps::names::{LIST_ADDRESSES_MOST, LIST_PREFIXES_MOST},
    rules::{
        list::{LISTS_MAX, List, NAME_BYTES, PATH_BYTES, Slots, slots_of},
        rule::{COMMAND, CONFIG},
    },
};

use crate::{
    Error,
    error::ListError,
    lists::{
        self,
        action::Action,
        entries::Entries,
        listing::{self, InForce},
        plan::{Plan, Switch},
    },
    rules::{
        change_mark::ChangeMark,
        filter,
        policies::{
            self,
            lanes::{self, LanePairs},
            largest_debt,
            slots::Group,
        },
        spec::RuleSpec,
    },
    sys::{host, rcu},
    tables::open::Tables,
};

/// A list to set. It replaces the one of this name.
#[derive(Debug, Clone)]
pub struct RequestedList {
    /// Its name, which [`listing::is_name`] accepts.
    pub name: String,
    /// Its entries.
    pub entries: Entries,
    /// What it does.
    pub action: Action,
    /// Nanoseconds of the monotonic clock; [`NEVER`](ratelimit_common::rules::rule::NEVER) if it stays.
    pub expires: u64,
    /// Its origin: one of [`ratelimit_common::rules::rule`].
    pub origin: u8,
    /// The file that it comes from.
    pub file: Option<PathBuf>,
}

impl RequestedList {
    /// Returns whether an operator asks for it, by command or by file. Others come from the fleet or from CrowdSec.
    pub fn is_of_operator(&self) -> bool {
        matches!(self.origin, COMMAND | CONFIG)
    }
}

/// A change of lists.
#[derive(Debug, Clone, Default)]
pub struct ListChange {
    /// Lists to set. No two have the same name.
    pub set: Vec<RequestedList>,
    /// Names of lists to delete. None of them is set.
    pub deleted: Vec<String>,
}

/// Makes a change in the maps. It acts on the next packet of every source, and `check` decides before that whether it
/// does. The caller makes sure that the program looks at lists and at what their limits need. `pins` is the folder of
/// pinned maps.
///
/// # Errors
///
/// [`Error::Lists`] or [`Error::TooManyPolicies`] if there is no space, those of `check`, and [`Error::Bpf`] if the kernel
/// refuses. Nothing has changed then.
pub fn apply(
    pins: Option<&Path>,
    tables: &mut Tables,
    change: &ListChange,
    check: &dyn Fn(&Tables) -> Result<(), Error>,
) -> Result<(), Error> {
    // A list that has ended gives its number back.
    let (now, is_empty) = (host::now(), change.set.is_empty() && change.deleted.is_empty());
    if !is_empty && listing::in_force(tables)?.iter().any(|running| running.list.is_over(now)) {
        apply(pins, tables, &ListChange::default(), &|_| Ok(()))?;
    }
    let mark = ChangeMark::begin(pins)?;
    let outcome = write(tables, &mark, change, check).and_then(|written| {
        // The lists act with the next generation.
        let next = tables.control()?.renewed();
        tables.set_control(&next).map(|()| written)
    });
    let finished = match &outcome {
        Ok(written) => finish(tables, written),
        Err(_) => lists::repair(tables),
    };
    // As for rules: the next command repeats steps that have failed.
    if finished.is_ok() {
        mark.end();
    }
    outcome.map(drop)
}

/// A change that is written, but does not act yet.
struct Written {
    plan: Plan,
    /// Slots in force afterwards.
    after: Slots,
    lanes: LanePairs,
    /// Policies of lists that are replaced or deleted.
    gone: HashSet<PolicyId>,
}

/// A requested list and its place.
struct Placed<'a> {
    list: &'a RequestedList,
    slot: u32,
    before: Option<&'a InForce>,
}

/// Writes the change into slots that no packet looks at.
fn write(
    tables: &mut Tables,
    mark: &ChangeMark,
    change: &ListChange,
    check: &dyn Fn(&Tables) -> Result<(), Error>,
) -> Result<Written, Error> {
    let (now, in_force) = (host::now(), listing::in_force(tables)?);
    let placed = place(change, &in_force)?;
    let ended = in_force.iter().filter(|running| running.list.is_over(now) || change.deleted.contains(&running.name()));
    let replaced = placed.iter().filter_map(|placed| placed.before);
    let old: Vec<&InForce> = ended.chain(replaced).collect();
    let mask = |slots: &mut dyn Iterator<Item = u32>| slots.fold(0, |mask: Slots, slot| mask | 1 << slot);
    let before = mask(&mut in_force.iter().map(|running| running.slot));
    let new = mask(&mut placed.iter().map(|placed| placed.slot));
    let after = before & !mask(&mut old.iter().map(|running| running.slot)) | new;

    let (addresses, prefixes) = wanted(&placed);
    let plan = Plan::new(tables, &addresses, prefixes, Switch { before, new, after })?;
    check_sizes(plan.left())?;
    let all = placed.iter().flat_map(|placed| {
        let Entries { addresses, prefixes } = &placed.list.entries;
        let addresses = addresses.iter().map(|address| Source::v4(address.to_ne_bytes()));
        addresses.chain(prefixes.iter().copied())
    });
    let all: Vec<Source> = all.collect();
    filter::add(tables, all.iter())?;
    let specs: Vec<RuleSpec> = placed.iter().map(Placed::spec).collect();
    let specs: Vec<_> = specs.iter().map(|spec| (spec, Group::Rules)).collect();
    let (ids, fresh) = policies::intern(tables, &specs)?;
    plan.write(tables)?;
    let mut pairs = LanePairs::new();
    for (placed, policy) in placed.iter().zip(ids) {
        tables.lists.set_slot(placed.slot, &placed.entry(policy, now)?)?;
        let lane = tables.policies.get(policy)?.lane();
        match placed.before {
            None => tables.lists.clear_hits(placed.slot / 2)?,
            Some(before) => {
                let old = tables.policies.get(before.list.policy)?;
                if old.has_limits() && fresh.contains(&lane) {
                    pairs.insert((old.lane(), lane));
                }
            }
        }
    }
    tables.set_control(&tables.control()?.with_next_lists(after))?;
    check(tables)?;
    mark.record(&pairs)?;
    lanes::raise(tables, &pairs)?;
    Ok(Written { plan, after, lanes: pairs, gone: old.iter().map(|running| running.list.policy).collect() })
}

/// Does what is left when the change acts.
fn finish(tables: &mut Tables, Written { plan, after, lanes, gone }: &Written) -> Result<(), Error> {
    tables.set_control(&tables.control()?.with_same_lists())?;
    lanes::raise_again(tables, lanes)?;
    rcu::wait();
    if *after != 0 {
        plan.finish(tables)?;
    }
    largest_debt::renew_without(tables, gone)?;
    if plan.removes_any() { filter::renew(tables) } else { Ok(()) }
}

/// Finds the slot of each list: the other one of its number, or one of a free number.
fn place<'a>(change: &'a ListChange, in_force: &'a [InForce]) -> Result<Vec<Placed<'a>>, Error> {
    let mut free = (0..LISTS_MAX).filter(|number| in_force.iter().all(|running| running.slot / 2 != *number));
    let place = |list: &'a RequestedList| {
        let before = in_force.iter().find(|running| running.name() == list.name);
        let slot = match before {
            Some(running) => running.slot ^ 1,
            None => slots_of(free.next().ok_or(ListError::TooMany)?)[0],
        };
        Ok(Placed { list, slot, before })
    };
    change.set.iter().map(place).collect()
}

impl Placed<'_> {
    fn spec(&self) -> RuleSpec {
        match &self.list.action {
            Action::Deny => Policy::listed(self.slot / 2).into(),
            Action::Limit(spec) => (**spec).clone(),
        }
    }

    /// Returns the content of the slot.
    fn entry(&self, policy: PolicyId, now: u64) -> Result<List, Error> {
        let RequestedList { name, entries, action, expires, origin, file } = self.list;
        let created =
            self.before.filter(|running| !running.list.is_over(now)).map_or(now, |running| running.list.created());
        let path = file.as_ref().map(|path| path.to_string_lossy().into_owned());
        let path = path.filter(|path| path.len() <= PATH_BYTES).unwrap_or_default();
        let mut list = List {
            expires: *expires,
            rank: List::rank(*action == Action::Deny, created),
            policy,
            origin: *origin,
            name_bytes: name.len().min(NAME_BYTES) as u8,
            path_bytes: path.len() as u16,
            addresses: entries.addresses.len() as u32,
            prefixes: entries.prefixes.len() as u32,
            digest: entries.digest(),
            ..List::NONE
        };
        list.name.iter_mut().zip(name.bytes()).for_each(|(place, byte)| *place = byte);
        list.path.iter_mut().zip(path.bytes()).for_each(|(place, byte)| *place = byte);
        Ok(list)
    }
}

/// Returns the entries of all lists, each with its slots. Addresses are sorted.
fn wanted(placed: &[Placed<'_>]) -> (Vec<(u32, Slots)>, HashMap<Source, Slots>) {
    let bit = |placed: &Placed<'_>| 1u64 << placed.slot;
    let each = placed.iter().flat_map(|placed| placed.list.entries.addresses.iter().map(|key| (*key, bit(placed))));
    let mut addresses: Vec<(u32, Slots)> = each.collect();
    if placed.len() > 1 {
        addresses.sort_unstable();
        addresses.dedup_by(|later, kept| {
            let is_same = later.0 == kept.0;
            kept.1 |= if is_same { later.1 } else { 0 };
            is_same
        });
    }
    let mut prefixes = HashMap::new();
    for placed in placed {
        for prefix in &placed.list.entries.prefixes {
            *prefixes.entry(*prefix).or_insert(0) |= bit(placed);
        }
    }
    (addresses, prefixes)
}

pub(super) fn check_sizes(left: [usize; 2]) -> Result<(), Error> {
    let kinds = [("addresses", LIST_ADDRESSES_MOST), ("prefixes", LIST_PREFIXES_MOST)];
    match left.into_iter().zip(kinds).find(|(found, (_, most))| *found > *most as usize) {
        Some((found, (kind, most))) => Err(ListError::TooLong { kind, found, most }.into()),
        None => Ok(()),
    }
}
