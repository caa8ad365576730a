//! Changes costs together with the program: it looks at costs only if there are any.

use ratelimit_common::{
    identity::service::Service,
    maps::control::{FEATURE_COSTS, FEATURE_SERVICES},
};

use crate::{
    Error,
    instance::{edit, swap::pinned::Pinned},
    rules::{
        change_mark::ChangeMark,
        costs::{self, Cost, RequestedCost},
        policies::lanes::LanePairs,
        repair::repair,
    },
    tables::open::Tables,
};

const FEATURES: u32 = FEATURE_COSTS | FEATURE_SERVICES;

/// Sets a cost.
pub(super) fn set(pinned: &mut Pinned, cost: Cost) -> Result<(), Error> {
    edit::look_at(pinned, FEATURES)?;
    let outcome = marked(pinned, |tables| costs::set(tables, cost));
    if outcome.is_err() {
        edit::spare(pinned, FEATURES);
    }
    outcome
}

/// Removes the cost of a service.
pub(super) fn delete(pinned: &mut Pinned, service: Service) -> Result<(), Error> {
    marked(pinned, |tables| costs::delete(tables, service))?;
    edit::spare(pinned, FEATURES);
    Ok(())
}

/// Makes a change of costs under the mark. If a step fails, the written costs act after a repair, now or by the next
/// command.
fn marked(pinned: &mut Pinned, change: impl FnOnce(&mut Tables) -> Result<(), Error>) -> Result<(), Error> {
    let before = costs::list(&pinned.tables)?;
    let mark = ChangeMark::begin(Some(&pinned.pins))?;
    let Err(error) = change(&mut pinned.tables) else {
        mark.end();
        return Ok(());
    };
    let is_written = costs::list(&pinned.tables).is_ok_and(|costs| costs != before);
    let repaired = repair(&mut pinned.tables, &LanePairs::new());
    if repaired.is_ok() {
        mark.end();
    }
    match (is_written, repaired) {
        (true, Ok(())) => Ok(()),
        (true, Err(_)) => Err(Error::Written { cause: Box::new(error) }),
        (false, _) => Err(error),
    }
}

/// Makes these the costs of an origin. Those of other origins stay, and win.
pub(super) fn set_all_of(pinned: &mut Pinned, origin: u8, costs: &[RequestedCost]) -> Result<(), Error> {
    let running = costs::list(&pinned.tables)?;
    for cost in running.iter().filter(|cost| cost.origin == origin) {
        if !costs.iter().any(|(service, _)| *service == cost.service) {
            delete(pinned, cost.service)?;
        }
    }
    for &(service, cost) in costs {
        let requested = Cost { service, cost, origin };
        if running.iter().all(|cost| cost.service != service || cost.origin == origin && *cost != requested) {
            set(pinned, requested)?;
        }
    }
    Ok(())
}

/// Restores all costs.
pub(super) fn restore(pinned: &mut Pinned, costs: &[Cost]) -> Result<(), Error> {
    for cost in costs::list(&pinned.tables)? {
        if !costs.iter().any(|other| other.service == cost.service) {
            delete(pinned, cost.service)?;
        }
    }
    costs.iter().try_for_each(|cost| set(pinned, *cost))
}
