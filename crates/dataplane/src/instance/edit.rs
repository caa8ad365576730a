//! Changes rules and settings together with the program: the one that runs has the features that rules need, and no
//! others.

use ratelimit_common::{
    cells::learned_rate::LearnedRate,
    identity::service::Service,
    maps::control::{
        Control, FEATURE_BANS, FEATURE_BYTES, FEATURE_COSTS, FEATURE_FRONT, FEATURE_INTERFACES, FEATURE_LANES,
        FEATURE_LISTS, FEATURE_PARENTS, FEATURE_RAW_IP, FEATURE_SERVICES, FEATURE_SHADOW_PROGRAMS,
    },
};

use crate::{
    Error,
    attach::carried,
    error::UnknownError,
    instance::{
        segments,
        swap::{
            pinned::Pinned,
            replace::{self, Running},
        },
    },
    lists::listing,
    program::{
        loader::{LEARNED, RequestedSettings, Settings},
        proofs,
    },
    readings::gauges,
    rules::{
        batch::{self, Change, Changed},
        capacities, costs, filter, list,
        policies::{self, of_earlier_versions},
        services::Services,
        spec::RuleSpec,
        target::Target,
    },
    sys::host,
    tables::open::Tables,
};

/// Checks everything, and makes a change.
pub(super) fn change(
    pinned: &mut Pinned,
    change: &Change,
    progress: &mut dyn FnMut(usize),
    check: &dyn Fn(&Tables) -> Result<(), Error>,
) -> Result<Changed, Error> {
    let mut needed = 0;
    for spec in change.specs.iter().filter(|_| !change.awaits_capacity) {
        check_capacity(&pinned.tables, spec)?;
    }
    let ipv6_prefix = pinned.tables.control()?.ipv6_prefix as u8;
    for rule in &change.rules {
        let spec = &change.specs[rule.spec];
        spec.check(rule.target, ipv6_prefix)?;
        needed |= needs(rule.target, spec);
    }
    let lifted = if change.lifted.is_empty() { 0 } else { FEATURE_BANS };
    let before = needs_before(&pinned.tables, change)? | lifted;
    look_at(pinned, needed)?;
    let outcome = batch::apply(Some(&pinned.pins), &mut pinned.tables, change, progress, check);
    spare(pinned, if outcome.is_err() { needed | before } else { before & !needed });
    outcome
}

/// Returns the features of rules that a change replaces or deletes. For a large change, these can be all. So they can
/// for a list with deletions, which also clears rules that have expired.
fn needs_before(tables: &Tables, change: &Change) -> Result<u32, Error> {
    let deletes = !change.deleted.is_empty() || !change.deleted_below.is_empty();
    if !change.is_small() || deletes && change.targets().count() > 1 {
        return Ok(if deletes { policies::OF_RULES } else { 0 });
    }
    change.targets().try_fold(0, |features, target| {
        let rule = list::without_comment(tables, target)?;
        let specs = rule.iter().flat_map(|rule| rule.covers.iter().map(|covered| &covered.spec).chain([&rule.spec]));
        Ok(specs.fold(features, |features, spec| features | needs(target, spec)))
    })
}

/// Checks what can be checked before anything changes.
pub(super) fn check(tables: &Tables, target: Target, spec: &RuleSpec) -> Result<(), Error> {
    spec.check(target, tables.control()?.ipv6_prefix as u8)?;
    check_capacity(tables, spec)
}

/// Checks that an elastic limit has a capacity to use.
fn check_capacity(tables: &Tables, spec: &RuleSpec) -> Result<(), Error> {
    if spec.policy.elastic != 0 && !capacities::is_any(tables)? {
        return Err(Error::NoCapacity);
    }
    Ok(())
}

/// Replaces the running program by this build's, with the requested settings. A rate that is to be learned from now on is
/// learned anew.
pub(super) fn upgrade(pinned: &mut Pinned, requested: &RequestedSettings) -> Result<(), Error> {
    if requested.unknown == Some(LEARNED) && pinned.settings()?.unknown != LEARNED {
        gauges::set_learned(&mut pinned.tables, LearnedRate::default())?;
    }
    load(pinned, requested)
}

/// Replaces the running program by this build's, with the requested settings.
pub(super) fn load(pinned: &mut Pinned, requested: &RequestedSettings) -> Result<(), Error> {
    let running = pinned.settings()?;
    let settings = requested.or(running);
    let different = |running, requested| Err(Error::Setting { running, requested });
    if settings.ipv6_prefix != running.ipv6_prefix {
        let [running, requested] = [running, settings].map(|settings| settings.ipv6_prefix.to_string());
        return different(format!("IPv6 prefix {running}"), requested);
    }
    if (settings.cells == 0) != (running.cells == 0) {
        let [with, without] = ["cells", "none (--front off)"].map(str::to_owned);
        return if settings.cells == 0 { different(with, without) } else { different("no cells".to_owned(), with) };
    }
    if settings.unknown != 0 && settings.cells == 0 {
        return Err(UnknownError::NoCells.into());
    }
    if settings.prove_tcp && !running.prove_tcp {
        proofs::check(&settings)?;
    }
    replace::replace(pinned, &settings)?;
    if settings.spare != running.spare {
        // Buckets and cells remember what was decided with the other setting.
        pinned.tables.renew()?;
    }
    segments::try_renew(pinned);
    Ok(())
}

/// Restores a program that ran before. If it lacks a feature that rules need by now, loads this build's program with
/// its settings.
pub(super) fn go_back(pinned: &mut Pinned, to: Running) -> Result<(), Error> {
    if replace::can_run(&pinned.pins, &to, needed(pinned, u32::MAX)?)? {
        replace::restore(pinned, to)?;
        // It may deny what the other one has spared.
        pinned.tables.renew()
    } else {
        load(pinned, &to.requested())
    }
}

/// Loads a program with these features too.
pub(super) fn look_at(pinned: &mut Pinned, needed: u32) -> Result<(), Error> {
    let running = pinned.tables.control()?.features;
    let needed = possible(needed, running);
    if needed & !running == 0 { Ok(()) } else { switch_to(pinned, running | needed) }
}

/// Does what an upgrade leaves to do once the maps of the other version are copied.
pub(super) fn finish_upgrade(pinned: &mut Pinned) -> Result<(), Error> {
    // Layout 12 marked bans in the filter of rules.
    filter::renew(&mut pinned.tables)?;
    // It had no lanes either.
    if !of_earlier_versions::without(&pinned.tables)?.is_empty() {
        look_at(pinned, FEATURE_LANES)?;
        of_earlier_versions::assign(&mut pinned.tables)?;
    }
    of_earlier_versions::use_ticks(&mut pinned.tables)?;
    try_spare(pinned, FEATURE_BYTES)?;
    let control = pinned.tables.control()?;
    pinned.tables.set_control(&Control { unfinished: 0, ..control })
}

/// Loads a program without those of these features that no rule needs. If that fails, the running one does more work
/// than necessary.
pub(super) fn spare(pinned: &mut Pinned, features: u32) {
    let _ = try_spare(pinned, features);
}

fn try_spare(pinned: &mut Pinned, features: u32) -> Result<(), Error> {
    let running = pinned.tables.control()?.features;
    if features & running == 0 {
        return Ok(());
    }
    let unused = features & running & !needed(pinned, features)?;
    if unused == 0 { Ok(()) } else { switch_to(pinned, running & !unused) }
}

fn switch_to(pinned: &mut Pinned, features: u32) -> Result<(), Error> {
    let settings: Settings = pinned.settings()?.with_features(features);
    replace::replace(pinned, &settings)
}

/// Returns those of the asked features that rules, costs, bans and interfaces need.
fn needed(pinned: &Pinned, asked: u32) -> Result<u32, Error> {
    let mut features = policies::features(&pinned.tables)?;
    if asked & FEATURE_SERVICES != 0 && !Services::read(&pinned.tables)?.is_empty() {
        features |= FEATURE_SERVICES;
    }
    if asked & FEATURE_COSTS != 0 && !costs::list(&pinned.tables)?.is_empty() {
        features |= FEATURE_COSTS;
    }
    if asked & FEATURE_INTERFACES != 0 && pinned.attachments.indices()?.len() > 1 {
        features |= FEATURE_INTERFACES;
    }
    if asked & FEATURE_RAW_IP != 0 && carried::has_raw_ip(&pinned.attachments, &pinned.programs()?.raw_ids()?)? {
        features |= FEATURE_RAW_IP;
    }
    if asked & FEATURE_LISTS != 0 && listing::is_any(&pinned.tables)? {
        features |= FEATURE_LISTS;
    }
    if asked & FEATURE_SHADOW_PROGRAMS != 0 && carried::has_shadow(&pinned.attachments)? {
        features |= FEATURE_SHADOW_PROGRAMS;
    }
    // Bans outlast the limits that set them. If they end by time, the next such change notices.
    let now = host::now();
    if asked & FEATURE_BANS != 0 && pinned.tables.bans()?.all().iter().any(|(_, ban)| now < ban.expires) {
        features |= FEATURE_BANS;
    }
    Ok(asked & possible(features, pinned.tables.control()?.features))
}

/// Returns those of the features that a program with these other features can have. Without cells it has no lanes.
pub fn possible(features: u32, running: u32) -> u32 {
    if running & FEATURE_FRONT == 0 { features & !FEATURE_LANES } else { features }
}

/// Returns the features that a limit needs if it is not the default.
pub fn needs_of_rules(spec: &RuleSpec) -> u32 {
    let lanes = if spec.policy.has_limits() { FEATURE_LANES } else { 0 };
    needs(Target::DEFAULT, spec) | lanes
}

/// Returns the features that a rule needs.
pub fn needs(target: Target, spec: &RuleSpec) -> u32 {
    let services = if target.service == Service::Any { 0 } else { FEATURE_SERVICES };
    let parents = if spec.parents.is_empty() { 0 } else { FEATURE_PARENTS | FEATURE_LANES };
    let lanes = if target != Target::DEFAULT && spec.policy.has_limits() { FEATURE_LANES } else { 0 };
    // Parents are buckets, so bytes are all that they can need besides.
    let of_parents = spec.parents.iter().map(|parent| policies::features_of(&parent.policy) & FEATURE_BYTES);
    let all = services | parents | lanes | policies::features_of(&spec.policy);
    of_parents.fold(all, |all, features| all | features)
}
