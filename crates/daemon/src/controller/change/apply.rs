//! Applies a configuration file to an instance: completely, or not at all.

use std::{path::Path, time::SystemTime};

use ratelimit_base::text::prefix::Prefix;
use ratelimit_common::rules::rule::CONFIG;
use ratelimit_dataplane::{
    Error, Instance,
    attach::attachment::Attachment,
    debts::{Saved, restore::Restored},
    instance::{daemon_lock::DaemonLock, open::Versions},
    program::values::{Difference, differences, per_second},
    rules::{capacities, list, target::Target},
    spared::unapplied,
    sys::interface,
    tables::open::Tables,
};

use super::{
    allows,
    applied::{Applied, added, deleted, in_words, removed_allows},
    difference::{By, difference, of_ends},
    interfaces::{self, Listed, Manner, Requested, RequestedInterface},
    left,
    left_out::LeftOut,
    lists, omitted, stacked,
    undo::Done,
};
pub use crate::ssh::ProtectedSessions;
use crate::{
    config::{self, Config, Planned},
    ssh,
};

/// Applies the file. This process must have the daemon lock `claim`, or takes it. The first time, it also replaces the
/// program by its own version. If nothing is attached yet, the protected sessions are allowed. A file that would block
/// one of them is refused.
///
/// The first time, a new instance also gets what an earlier one had `saved`, before its first packet.
///
/// # Errors
///
/// Fails with the first problem. Nothing has changed then.
pub fn apply(
    pins: &Path,
    config: &Config,
    is_first: bool,
    protected: &ProtectedSessions,
    saved: &dyn Fn() -> Saved,
    daemon_lock: &mut Option<DaemonLock>,
) -> anyhow::Result<Applied> {
    // Names and link types are checked before anything changes.
    let listed = Listed::find(&config.interfaces)?;
    // The lock comes before the conversion of an instance of another version.
    DaemonLock::take_early(pins, daemon_lock)?;
    let versions = if is_first { Versions::All } else { Versions::InForce };
    let (mut instance, is_new) = Instance::open_or_create(pins, &config.requested, versions)?;
    let mut done = Done::default();
    let how = How { is_new, is_first, protected, saved };
    let mut apply = || -> anyhow::Result<Applied> {
        // Without the daemon lock, nothing may change.
        instance.lock_for_daemon(daemon_lock)?;
        omitted::check(&instance.settings()?, &config.requested)?;
        Ok(apply_to(&mut instance, config, &listed, how, &mut done)?)
    };
    apply().map_err(|error| left::with_left(error, &done.undo(instance, is_new)))
}

/// Computes the ends of the file's rules again, because the clock was set. Such a rule returns if a command has deleted
/// it, as at a reload. Interfaces, settings and other rules stay as they are. Returns how many rules have changed.
///
/// # Errors
///
/// Fails with the first problem. Nothing has changed then.
pub fn renew_ends(pins: &Path, timed: &[Planned], protected: &ProtectedSessions) -> anyhow::Result<usize> {
    let mut instance = match Instance::open_in_force(pins) {
        Err(Error::NotAttached(_)) => return Ok(0),
        instance => instance?,
    };
    let change = of_ends(&list::list(&instance.tables)?, timed, SystemTime::now());
    let changed = change.rules.len() + change.deleted.len();
    if changed != 0 {
        let is_shadow = instance.settings()?.shadow;
        let guard = ssh::Guard::over(&instance.tables, protected, is_shadow, is_shadow)?;
        instance.change(&change, &mut |_| {}, &|tables| guard.check(tables))?;
    }
    Ok(changed)
}

/// Records for interfaces that are gone whether they will be in shadow. The next reload repeats this, so a failure does not
/// matter.
fn record_shadows(instance: &Instance, interfaces: &[config::Interface]) {
    for gone in instance.attachments.list().unwrap_or_default().iter().filter(|attachment| attachment.is_gone) {
        if let Some(wanted) = interfaces.iter().find(|wanted| gone.has_lost(&wanted.name)) {
            let _ = gone.record_shadow(wanted.shadow.unwrap_or(false));
        }
    }
}

/// Records in the names of pins what the file lists. The next reload repeats this, so a failure does not matter.
pub(super) fn record(instance: &Instance, listed: &[config::Interface]) {
    let listed: Vec<String> = listed.iter().map(|interface| interface.name.clone()).collect();
    let _ = instance.attachments.record(&listed);
}

/// The circumstances.
#[derive(Clone, Copy)]
struct How<'a> {
    is_new: bool,
    is_first: bool,
    protected: &'a ProtectedSessions,
    saved: &'a dyn Fn() -> Saved,
}

fn apply_to(
    instance: &mut Instance,
    config: &Config,
    Listed { present, awaited }: &Listed,
    How { is_new, is_first, protected, saved }: How<'_>,
    done: &mut Done,
) -> Result<Applied, Error> {
    let requested = |wanted: &config::Interface| {
        let (mode, shadow) = (wanted.mode, wanted.shadow.unwrap_or(false));
        RequestedInterface { name: wanted.name.clone(), mode, shadow }
    };
    let (present, left_off) =
        stacked::divide(instance.pins(), present, &instance.attachments.list()?, &interface::list()?);
    let present = &present[..];
    let requested: Requested = present.iter().map(requested).collect();
    interfaces::check_modes(instance, &requested)?;
    let manner = Manner { replace: false, origin: CONFIG, makes_room: &|attachment| attachment.origin == CONFIG };
    let awaited_names = awaited.iter().map(|wanted| wanted.name.clone()).collect();
    let mut applied = Applied { awaited: awaited_names, left_off, ..Applied::default() };
    let running = instance.settings()?;
    if !is_new {
        applied.settings = differences(&running, &config.requested);
    }
    // The file is the state: what it omits has its default. Only sizes stay.
    let settings = config.requested.or_defaults(&running);
    let wanted = settings.or(running);
    // Interfaces that stay in shadow alone are marked before all shadow ends, so they are never enforced between.
    let in_shadow = set_shadows(instance, present, true, done)?;
    if !is_new && (is_first || wanted != running) {
        done.upgrade(instance, &settings)?;
    }
    let enforced = set_shadows(instance, present, false, done)?;
    let was_in_shadow = running.shadow || !enforced.is_empty();
    applied.settings.extend([in_shadow, enforced].concat());
    let is_planned = |target: Target| config.rules.iter().any(|rule| rule.target == target);
    match instance.attachments.list()?.is_empty() {
        true if present.is_empty() => {}
        true => ssh::allow_each(instance, protected, &is_planned, &mut done.allowed_ssh)?,
        false => ssh::allow_own(instance, protected, &is_planned, &mut done.allowed_ssh)?,
    }
    applied.allowed_ssh = done.allowed_ssh.iter().map(Prefix::to_string).collect();
    applied.settings.extend(set_capacities(instance, present, done)?);
    done.set_costs(instance, CONFIG, &config.costs)?;
    // In a new instance, rules come before interfaces. In a running one, an interface that fails must not change any
    // rule.
    if !is_new {
        applied.attached = interfaces::attach(instance, &requested, manner, done)?;
    }
    let rules = list::list(&instance.tables)?;
    let mut difference = difference(&rules, &config.rules, SystemTime::now());
    difference.change.awaits_capacity =
        awaited.iter().any(|wanted| wanted.capacity.is_some_and(|capacity| capacity != 0));
    applied.set = difference.change.rules.len();
    applied.deleted = difference.change.deleted.len() + difference.change.deleted_below.len();
    applied.unchanged = difference.unchanged;
    for (target, by) in &difference.overruled {
        let names = match by {
            By::Command => &mut applied.overruled,
            By::Temporary => &mut applied.covered,
            By::Session => &mut applied.allowed_instead,
        };
        names.push(target.to_string());
    }
    if !is_first {
        applied.added = added(&rules, &difference.change);
    }
    applied.named_deleted = deleted(&rules, &difference.change);
    applied.removed_allows = removed_allows(&rules, &difference.change);
    let guard = ssh::Guard::over(&instance.tables, protected, was_in_shadow, wanted.shadow)?;
    guard.check_unknown(&instance.tables, &running, &wanted)?;
    let (mut replaced, mut left_out) = (Vec::new(), LeftOut::of_fallen(&instance.tables, &config.lists)?);
    if let Some(change) = lists::difference(&instance.tables, &config.lists, &left_out)? {
        if let Some([change, back]) = allows::first(&difference.change, &rules) {
            replaced = done.allow(instance, &change, back)?;
        }
        // Limits are compared with those of the whole file, below.
        let protection = (&guard, protected);
        applied.lists = lists::change(instance, &config.lists, change, protection, &mut left_out, done)?;
    }
    applied.unusable_lists = lists::unusable(&instance.tables, &config.lists, &left_out)?;
    applied.spared = left_out.spared(&config.lists);
    replaced.extend(instance.change(&difference.change, &mut |_| {}, &|tables| guard.check(tables))?.replaced);
    applied.replaced = replaced.iter().map(in_words).collect();
    if is_new {
        if is_first {
            applied.restored = restored(instance, &saved(), &guard);
        }
        applied.attached = interfaces::attach(instance, &requested, manner, done)?;
    }
    // A detached interface cannot be attached again without a gap. So this is the last step, and its failure is only
    // reported.
    let is_kept = |wanted: &config::Interface| applied.left_off.iter().all(|left| left.name != wanted.name);
    let kept: Vec<_> = config.interfaces.iter().filter(|wanted| is_kept(wanted)).cloned().collect();
    let (detached, failure) = interfaces::detach_unlisted(&instance.attachments, &kept);
    applied.detached = done.made_room().map(str::to_owned).filter(|name| !applied.attached.contains(name)).collect();
    applied.detached.extend(detached);
    applied.not_detached = failure.map(|error| error.to_string());
    // The next attach repeats this, so a failure does not matter.
    let _ = forget_capacities(instance);
    instance.forget_interfaces();
    // A failure to tell is no failure of the change.
    applied.unapplied = not_applied(&instance.tables).unwrap_or_default();
    record_shadows(instance, &config.interfaces);
    record(instance, &config.interfaces);
    Ok(applied)
}

/// Returns what of the lists and denies is not applied to this host's own network: of each list, its first entry.
fn not_applied(tables: &Tables) -> Result<Vec<String>, Error> {
    let lists = unapplied::of_lists(tables, false)?.unwrap_or_default();
    let denies = unapplied::of_denies(tables, false)?.unwrap_or_default();
    let of_lists = lists.iter().map(|(name, found)| (format!("list {name}:"), found));
    let all = of_lists.chain([("deny".to_owned(), &denies)]).filter(|(_, found)| found.count > 0);
    Ok(all.map(|(what, found)| format!("{what} {}", found.lines(1).collect::<Vec<_>>().join(" "))).collect())
}

/// Puts debts, bans and the learned rate back. They are no reason to refuse a file.
fn restored(instance: &mut Instance, saved: &Saved, guard: &ssh::Guard) -> Option<Result<Restored, String>> {
    let check = |tables: &Tables, source: &Prefix| guard.check_ban(tables, source);
    (!saved.is_empty()).then(|| instance.restore(saved, &check).map_err(|error| error.to_string()))
}

/// Puts those attached interfaces in shadow, or ends that, for which the file wants this. Returns what changed.
fn set_shadows(
    instance: &mut Instance,
    interfaces: &[config::Interface],
    is_shadow: bool,
    done: &mut Done,
) -> Result<Vec<Difference>, Error> {
    let find = |name: &str| interfaces.iter().find(|wanted| wanted.name == name);
    let is_wanted = |attachment: &Attachment| {
        let wanted = find(&attachment.name).filter(|_| attachment.mode.is_some());
        wanted.is_some_and(|wanted| wanted.shadow.unwrap_or(false) == is_shadow)
    };
    let [before, after] = [!is_shadow, is_shadow].map(|is_on| if is_on { "on" } else { "off" }.to_owned());
    let difference = |name: &String| Difference {
        name: format!("shadow of {name}"),
        before: before.clone(),
        after: after.clone(),
        is_omitted: find(name).is_some_and(|wanted| wanted.shadow.is_none()),
    };
    Ok(done.set_shadow(instance, &is_wanted, is_shadow)?.iter().map(difference).collect())
}

/// Sets the capacities of the file, and none where it omits them. Returns those of attached interfaces that changed.
pub(super) fn set_capacities(
    instance: &mut Instance,
    interfaces: &[config::Interface],
    done: &mut Done,
) -> Result<Vec<Difference>, Error> {
    let (attached, mut changed) = (instance.attachments.indices()?, Vec::new());
    for wanted in interfaces {
        let after = wanted.capacity.unwrap_or(0);
        for interface in interface::find(std::slice::from_ref(&wanted.name))? {
            let before = done.set_capacity(instance, &interface, after)?;
            if before != after && attached.contains(&interface.index) {
                changed.push(Difference {
                    name: format!("capacity of {}", wanted.name),
                    before: per_second(before),
                    after: per_second(after),
                    is_omitted: wanted.capacity.is_none(),
                });
            }
        }
    }
    Ok(changed)
}

pub(super) fn forget_capacities(instance: &mut Instance) -> Result<(), Error> {
    let attached = instance.attachments.list()?;
    let indices: Vec<u32> = attached.iter().filter_map(|attachment| attachment.index).collect();
    capacities::keep_only(&mut instance.tables, &indices)
}
