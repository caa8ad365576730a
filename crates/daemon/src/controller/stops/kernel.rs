//! The limits of stopped clients as rules of the instance. A rule ends in the kernel, also without a daemon.

use std::{
    collections::{BTreeSet, HashSet},
    path::Path,
    time::Duration,
};

use ratelimit_common::{
    identity::service::{Service, Transport},
    rules::rule::APPLICATION,
};
use ratelimit_dataplane::{
    Error, Instance,
    instance::read_only::View,
    rules::{
        batch::{Change, applications},
        services::Services,
        target::Target,
    },
    sys::host,
    tables::open::Tables,
};
use ratelimit_protocol::stops::{Place, Reason};

use super::spared;

/// The most ports with stopped clients at a time. Each takes one of the services that operators can have.
const PORTS: usize = 16;

/// Why a limit does not begin whose end is past.
pub(super) const LATE: &str = "the kernel was busy until the limit would have ended: ask again";

/// Returns the packets that a limit applies to.
pub(super) fn target(place: &Place) -> Target {
    Target::prefix(place.source).of(Service::port(Transport::Tcp, place.port))
}

/// What became of one limit.
pub(super) type Set = Result<(), (Reason, String)>;

/// Sets limits until their ends. Returns for each one why it is not set.
///
/// # Errors
///
/// Those of [`Instance::change`]. None is set then.
pub(super) fn set(pins: &Path, places: &[(Place, Duration)]) -> Result<Vec<Set>, Error> {
    let mut instance = Instance::open_in_force(pins)?;
    let standing = applications::standing(&instance.tables)?;
    let known: HashSet<Service> = Services::read(&instance.tables)?.iter().map(|(service, _)| service).collect();
    let mut services: BTreeSet<Service> = standing.iter().map(|target| target.service).collect();
    // Unlike a rule of an operator, it lifts no ban.
    let mut change = Change { keeps_bans: true, ..Change::default() };
    let mut outcomes = Vec::new();
    // The lock of the instance may have been busy for long.
    let now = Duration::from_nanos(host::now());
    for (place, end) in places {
        let target = target(place);
        if *end <= now {
            outcomes.push(Err((Reason::Unknown, LATE.to_owned())));
            continue;
        }
        // The operator can have set a rule since the request was checked.
        let spec = match spared::limit(&instance.tables, place)? {
            Ok(spec) => spec,
            Err(why) => {
                outcomes.push(Err((Reason::Ruled, why)));
                continue;
            }
        };
        if !known.contains(&target.service) && !services.contains(&target.service) && services.len() >= PORTS {
            let why = format!(
                "clients of {PORTS} ports are stopped: those of other ports get only the answer of the application"
            );
            outcomes.push(Err((Reason::TooMany, why)));
            continue;
        }
        services.insert(target.service);
        let expires = u64::try_from(end.as_nanos()).unwrap_or(u64::MAX - 1);
        change.add(target, change.specs.len(), expires, APPLICATION, None);
        change.specs.push(spec);
        outcomes.push(Ok(()));
    }
    if !change.rules.is_empty() {
        instance.change(&change, &mut |_| {}, &|_| Ok(()))?;
    }
    Ok(outcomes)
}

/// Deletes all limits.
///
/// # Errors
///
/// Those of [`Instance::change`].
pub(super) fn delete_all(pins: &Path) -> Result<(), Error> {
    delete(pins, applications::all)
}

/// Deletes the limits of these places.
///
/// # Errors
///
/// Those of [`Instance::change`].
pub(super) fn delete_these(pins: &Path, places: &[Place]) -> Result<(), Error> {
    let these: HashSet<Target> = places.iter().map(target).collect();
    delete(pins, |tables| Ok(applications::all(tables)?.into_iter().filter(|target| these.contains(target)).collect()))
}

/// Deletes limits that have ended. They act no more, but take room.
///
/// # Errors
///
/// Those of [`Instance::change`].
pub(super) fn delete_ended(pins: &Path) -> Result<(), Error> {
    delete(pins, applications::ended)
}

fn delete(pins: &Path, which: impl Fn(&Tables) -> Result<Vec<Target>, Error>) -> Result<(), Error> {
    // Most daemons have none, and need no lock to know that.
    match View::open(pins) {
        Err(Error::NotAttached(_)) => return Ok(()),
        view => {
            if which(view?.tables())?.is_empty() {
                return Ok(());
            }
        }
    }
    let mut instance = Instance::open_in_force(pins)?;
    let deleted = which(&instance.tables)?;
    instance.change(&Change { deleted, ..Change::default() }, &mut |_| {}, &|_| Ok(()))?;
    applications::unmark(pins, &instance.tables)
}

/// Returns which of these limits stand, and the generation of rules, unless it is the one that was seen last.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub(super) fn standing(
    pins: &Path,
    seen: Option<u32>,
    places: &[Place],
) -> Result<Option<(u32, HashSet<Target>)>, Error> {
    let view = match View::open(pins) {
        Err(Error::NotAttached(_)) => return Ok(Some((0, HashSet::new()))),
        view => view?,
    };
    // The generation comes first, so that a later change is seen next time.
    let generation = view.tables().control()?.generation;
    if seen == Some(generation) {
        return Ok(None);
    }
    Ok(Some((generation, applications::standing_of(view.tables(), places.iter().map(target))?)))
}
