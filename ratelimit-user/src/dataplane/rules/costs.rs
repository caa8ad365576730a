//! What packets of services count as in limits of packets.

use ratelimit_common::{
    identity::service::Service,
    maps::control::{FEATURE_COSTS, FEATURE_SERVICES},
};

use crate::dataplane::{
    Error, Instance,
    error::Tried as _,
    rules::{
        policies,
        services::{self, Services},
    },
    tables::open::Tables,
};

/// What packets of a service count as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost {
    /// The service.
    pub service: Service,
    /// Packets that each of its packets counts as.
    pub cost: u32,
    /// Who set it: an origin of [`ratelimit_common::rules::rule`].
    pub origin: u8,
}

/// What packets of a service shall count as.
pub type Wish = (Service, u32);

/// The services with a cost.
///
/// # Errors
///
/// [`Error::Bpf`] where the kernel refuses.
pub fn list(tables: &Tables) -> Result<Vec<Cost>, Error> {
    let mut costs = Vec::new();
    for (service, class) in Services::read(tables)?.iter() {
        let entry = tables.class(class)?;
        if entry.cost != 0 {
            costs.push(Cost { service, cost: u32::from(entry.cost), origin: entry.cost_origin });
        }
    }
    costs.sort_unstable();
    Ok(costs)
}

impl Instance {
    /// Lets packets of a service count as so many.
    ///
    /// # Errors
    ///
    /// [`Error::TooManyServices`] where the service has no class and gets none; what loading another program says.
    pub fn set_cost(&mut self, cost: Cost) -> Result<(), Error> {
        self.look_at(FEATURE_COSTS | FEATURE_SERVICES)?;
        let outcome = set(&mut self.tables, cost);
        if outcome.is_err() {
            self.spare(FEATURE_COSTS | FEATURE_SERVICES);
        }
        outcome
    }

    /// Lets packets of a service count as one again.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] where the kernel refuses.
    pub fn delete_cost(&mut self, service: Service) -> Result<(), Error> {
        delete(&mut self.tables, service)?;
        self.spare(FEATURE_COSTS | FEATURE_SERVICES);
        Ok(())
    }

    /// Makes these the costs that this origin has set. Those that another has set stay, also instead of one of these.
    ///
    /// # Errors
    ///
    /// Those of [`Self::set_cost`]; some may have changed then.
    pub fn set_costs_of(&mut self, origin: u8, costs: &[Wish]) -> Result<(), Error> {
        let running = list(&self.tables)?;
        for cost in running.iter().filter(|cost| cost.origin == origin) {
            if !costs.iter().any(|(service, _)| *service == cost.service) {
                self.delete_cost(cost.service)?;
            }
        }
        for &(service, cost) in costs {
            let wanted = Cost { service, cost, origin };
            if running.iter().all(|cost| cost.service != service || cost.origin == origin && *cost != wanted) {
                self.set_cost(wanted)?;
            }
        }
        Ok(())
    }

    /// Puts back what [`list`] has said.
    ///
    /// # Errors
    ///
    /// Those of [`Self::set_cost`].
    pub fn restore_costs(&mut self, costs: &[Cost]) -> Result<(), Error> {
        for cost in list(&self.tables)? {
            if !costs.iter().any(|other| other.service == cost.service) {
                self.delete_cost(cost.service)?;
            }
        }
        costs.iter().try_for_each(|cost| self.set_cost(*cost))
    }
}

/// Lets packets of a service count as so many, in the maps alone.
///
/// # Errors
///
/// [`Error::TooManyServices`] where the service has no class and gets none.
pub fn set(tables: &mut Tables, Cost { service, cost, origin }: Cost) -> Result<(), Error> {
    let class = services::ensure_class(tables, service)?;
    // Before it costs so much, cells leave room for it.
    renew(tables, cost)?;
    write(tables, class, cost, origin)?;
    renew(tables, 1)
}

/// Lets packets of a service count as one again, in the maps alone.
///
/// # Errors
///
/// [`Error::Bpf`] where the kernel refuses.
pub fn delete(tables: &mut Tables, service: Service) -> Result<(), Error> {
    let Some(class) = Services::read(tables)?.class(service) else { return Ok(()) };
    write(tables, class, 0, 0)?;
    renew(tables, 1)?;
    services::forget_unused(tables)?;
    tables.renew()
}

/// Works out what depends on the largest cost, which is at least this.
fn renew(tables: &mut Tables, least: u32) -> Result<(), Error> {
    let costs = list(tables)?;
    let mut control = tables.control()?;
    control.most_cost = costs.iter().map(|cost| cost.cost).fold(least, u32::max);
    tables.set_control(&control)?;
    policies::renew_costs(tables)
}

fn write(tables: &mut Tables, class: u8, cost: u32, origin: u8) -> Result<(), Error> {
    let entry = ratelimit_common::identity::service::ClassEntry {
        cost: cost as u16,
        cost_origin: origin,
        ..tables.class(class)?
    };
    tables.classes.set(u32::from(class), entry, 0).tried("cannot write a class")
}
