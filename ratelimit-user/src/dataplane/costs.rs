//! What packets of services count as in limits of packets.

use ratelimit_common::{
    control::{FEATURE_COSTS, FEATURE_SERVICES},
    service::Service,
};

use super::{
    Error, Instance,
    error::Tried as _,
    policies,
    services::{self, Services},
    tables::Tables,
};

/// The services with a cost.
///
/// # Errors
///
/// [`Error::Bpf`] where the kernel refuses.
pub fn list(tables: &Tables) -> Result<Vec<(Service, u32)>, Error> {
    let mut costs = Vec::new();
    for (service, class) in Services::read(tables)?.iter() {
        match tables.class(class)?.cost {
            0 => {}
            cost => costs.push((service, cost)),
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
    pub fn set_cost(&mut self, service: Service, cost: u32) -> Result<(), Error> {
        self.look_at(FEATURE_COSTS | FEATURE_SERVICES)?;
        let outcome = set(&mut self.tables, service, cost);
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
        let Some(class) = Services::read(&self.tables)?.class(service) else { return Ok(()) };
        write(&mut self.tables, class, 0)?;
        renew(&mut self.tables, 1)?;
        services::forget_unused(&mut self.tables)?;
        self.tables.renew()?;
        self.spare(FEATURE_COSTS | FEATURE_SERVICES);
        Ok(())
    }
}

/// Lets packets of a service count as so many, in the maps alone.
///
/// # Errors
///
/// [`Error::TooManyServices`] where the service has no class and gets none.
pub fn set(tables: &mut Tables, service: Service, cost: u32) -> Result<(), Error> {
    let class = services::ensure_class(tables, service)?;
    // Before it costs so much, cells leave room for it.
    renew(tables, cost)?;
    write(tables, class, cost)?;
    renew(tables, 1)
}

/// Works out what depends on the largest cost, which is at least this.
fn renew(tables: &mut Tables, least: u32) -> Result<(), Error> {
    let costs = list(tables)?;
    let mut control = tables.control()?;
    control.most_cost = costs.iter().map(|(_, cost)| *cost).fold(least, u32::max);
    tables.set_control(&control)?;
    policies::renew_costs(tables)
}

fn write(tables: &mut Tables, class: u8, cost: u32) -> Result<(), Error> {
    let entry = ratelimit_common::service::ClassEntry { cost, ..tables.class(class)? };
    tables.classes.set(u32::from(class), entry, 0).tried("cannot write a class")
}
