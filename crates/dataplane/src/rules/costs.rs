//! Costs: how many packets each packet of a service counts as, in limits of packets.

use ratelimit_common::{
    identity::{
        class::Class,
        service::{ClassEntry, Service},
    },
    limits::policy::{COARSE, LIMIT, Policy},
    maps::control::Control,
    meters::gcra,
    meters::meter::Meter,
    rules::rule::CONFIG,
};

use crate::{
    Error,
    rules::{
        expiry, policies,
        services::{self, Services},
    },
    sys::rcu,
    tables::open::Tables,
};

/// The cost of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost {
    /// The service.
    pub service: Service,
    /// Packets that each of its packets counts as.
    pub cost: u32,
    /// Its origin: one of [`ratelimit_common::rules::rule`].
    pub origin: u8,
}

/// A requested cost: the service, and the packets that each of its packets counts as.
pub type RequestedCost = (Service, u32);

/// Returns the services with a cost.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn list(tables: &Tables) -> Result<Vec<Cost>, Error> {
    let mut costs = Vec::new();
    for (service, class) in Services::read(tables)?.iter() {
        let entry = tables.classes.get(u32::from(class))?;
        if entry.cost != 0 {
            costs.push(Cost { service, cost: u32::from(entry.cost), origin: entry.cost_origin });
        }
    }
    costs.sort_unstable();
    Ok(costs)
}

/// Sets a cost in the maps. The caller makes sure that the program looks at costs.
///
/// # Errors
///
/// [`Error::Services`] if the service needs a class and all are taken, or has a port of another one. The cost of a file
/// comes before its rules, which may replace those of the other one.
pub fn set(tables: &mut Tables, Cost { service, cost, origin }: Cost) -> Result<(), Error> {
    expiry::make_way(tables, &[service])?;
    if origin != CONFIG {
        services::check_ports(tables, &[service])?;
    }
    let others: Vec<Service> = Services::read(tables)?.iter().map(|(service, _)| service).collect();
    let class = services::ensure_class(tables, service)?;
    if !others.contains(&service) {
        services::tell_apart(tables, &others)?;
    }
    // Cells leave space for the cost before it is in force.
    renew(tables, cost)?;
    write(tables, class, cost, origin)?;
    renew(tables, 1)
}

/// Removes the cost of a service from the maps.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn delete(tables: &mut Tables, service: Service) -> Result<(), Error> {
    let Some(class) = Services::read(tables)?.class(service) else { return Ok(()) };
    write(tables, class, 0, 0)?;
    renew(tables, 1)?;
    services::forget_unused(tables)?;
    tables.renew()
}

/// Recomputes everything that depends on costs, after a change that was killed.
pub fn repair(tables: &mut Tables) -> Result<(), Error> {
    renew(tables, 1)
}

/// Recomputes everything that depends on the largest cost, which is at least this.
fn renew(tables: &mut Tables, least: u32) -> Result<(), Error> {
    let costs = list(tables)?;
    let mut control = tables.control()?;
    control.most_cost = costs.iter().map(|cost| cost.cost).fold(least, u32::max);
    tables.set_control(&control)?;
    renew_policies(tables)
}

fn write(tables: &mut Tables, class: Class, cost: u32, origin: u8) -> Result<(), Error> {
    let class = u32::from(class);
    let entry = ClassEntry { cost: cost as u16, cost_origin: origin, ..tables.classes.get(class)? };
    tables.classes.set(class, &entry)
}

/// Recomputes the policies, which depend on the largest cost. Each word of a policy is valid meanwhile.
///
/// Where the cell's share of a burst shrinks, buckets of earlier generations are charged the difference before they
/// decide: by all packets that may see the smaller share, and until the new generation at each packet, since some may
/// still use the larger share. No debt shrinks: levels of cells that expensive packets have raised stay.
fn renew_policies(tables: &mut Tables) -> Result<(), Error> {
    let control = tables.control()?;
    let mut changes = Vec::new();
    for slot in policies::used(tables)? {
        let running = tables.policies.get(slot)?;
        let given =
            Policy { flags: running.flags & !COARSE, allowance: running.allowance, ..policies::as_given(running) };
        let renewed = policies::in_time(given, &control);
        let renewed = if running.flags & COARSE == 0 { renewed } else { renewed.by_ticks(gcra::units(control.tick)) };
        if running.kind == LIMIT && renewed != running {
            changes.push((slot, running, renewed));
        }
    }
    let is_smaller = |new: &Meter, old: &Meter| new.cell_share < old.cell_share;
    let shrink = changes
        .iter()
        .any(|(_, old, new)| is_smaller(&new.packets, &old.packets) || is_smaller(&new.second, &old.second));
    if shrink {
        let cell_shares_since = control.generation.wrapping_add(1);
        tables.set_control(&Control { cell_shares_since, ..control })?;
        rcu::wait();
    }
    for (slot, _, renewed) in changes {
        policies::note_debt(tables, &renewed)?;
        tables.policies.set(slot, &renewed)?;
    }
    if shrink {
        rcu::wait();
    }
    tables.renew()
}
