//! The classes of services. A service has a class as long as a rule names it.

use std::os::fd::AsFd as _;

use aya::maps::IterableMap;
use ratelimit_base::text::service::ServiceName;
use ratelimit_common::{
    buckets::{bucket::Bucket, sliding_log::Log},
    identity::{
        class::{ANY, CLASSES, Class, Classes},
        service::{self, ClassEntry, Service, Transport},
        source::Source,
    },
    maps::control::FEATURE_SERVICES,
};

use crate::{
    Error,
    error::ServicesError,
    sys::{bpf, rcu},
    tables::{open::Tables, rule_maps},
};

/// The most services that can have rules at a time.
const MOST_SERVICES: usize = CLASSES - 1;

/// All services with a class.
#[derive(Debug, Clone)]
pub struct Services(Vec<(Service, Class)>);

impl Services {
    /// Reads all services with a class.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses.
    pub fn read(tables: &Tables) -> Result<Self, Error> {
        let named = (0..=Class::MAX).zip(tables.classes.all()?).map(|(class, entry)| (entry.service(), class));
        Ok(Self(named.skip(1).filter(|(service, _)| *service != Service::Any).collect()))
    }

    /// Reads the services that the running program distinguishes.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses.
    pub fn told_apart(tables: &Tables) -> Result<Self, Error> {
        if tables.control()?.features & FEATURE_SERVICES == 0 { Ok(Self(Vec::new())) } else { Self::read(tables) }
    }

    /// Returns whether no rule names a service.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns each service with its class.
    pub fn iter(&self) -> impl Iterator<Item = (Service, Class)> + '_ {
        self.0.iter().copied()
    }

    /// Returns the class of a service.
    #[must_use]
    pub fn class(&self, service: Service) -> Option<Class> {
        let all = [(Service::Any, ANY)].into_iter().chain(self.iter());
        all.filter(|(of, _)| *of == service).map(|(_, class)| class).next()
    }

    /// Returns the service of a class.
    #[must_use]
    pub fn of_class(&self, class: Class) -> Option<Service> {
        let all = [(Service::Any, ANY)].into_iter().chain(self.iter());
        all.filter(|(_, of)| *of == class).map(|(service, _)| service).next()
    }

    /// Returns the service of a bucket's key, and the classes of its packets.
    ///
    /// While an allow or a deny decides, new connections to a port with its own rules have buckets of their own. These
    /// buckets belong to the service of that port.
    #[must_use]
    pub fn of_key(&self, source: &Source) -> (Service, Classes) {
        let [class, telling] = source.class.to_le_bytes();
        let service = self.of_class(class).unwrap_or_default();
        match self.of_class(telling) {
            Some(Service::Ports(transport, first, last)) => {
                (Service::Ports(transport, first, last), self.classes_of_new(first))
            }
            _ => (service, self.classes(service)),
        }
    }

    /// Returns the service with a class that has this port, or else the port itself.
    #[must_use]
    pub fn of_port(&self, transport: Transport, port: u16) -> Service {
        service::of_port(&self.0, transport, port)
    }

    /// Returns whether a service with a class has a port of any of the `wanted` ones.
    #[must_use]
    pub fn any_overlaps(&self, wanted: &[Service]) -> bool {
        self.iter().any(|(service, _)| wanted.iter().any(|wanted| wanted.overlaps(service)))
    }

    /// Returns the classes of packets that request a new connection to `port`.
    #[must_use]
    pub fn classes_of_new(&self, port: u16) -> Classes {
        service::classes_of_new(&self.0, port)
    }

    /// Returns the classes of packets whose narrowest service is `service`.
    #[must_use]
    pub fn classes(&self, service: Service) -> Classes {
        service::classes(&self.0, service)
    }
}

/// Returns the class of a service. A service without a class gets one, which acts after [`tell_apart`].
///
/// # Errors
///
/// [`ServicesError::TooMany`] if all classes are taken.
pub fn ensure_class(tables: &mut Tables, service: Service) -> Result<Class, Error> {
    let services = Services::read(tables)?;
    if let Some(class) = services.class(service) {
        return Ok(class);
    }
    let is_free = |class: &Class| services.iter().all(|(_, taken)| taken != *class);
    // The class that became free last comes last: cells may still have cached refusals of it.
    let mut control = tables.control()?;
    let last = control.last_class as Class;
    let class = (last.saturating_add(1)..=Class::MAX).chain(1..=last).find(is_free);
    let class = class.ok_or(ServicesError::TooMany(MOST_SERVICES))?;
    control.last_class = u32::from(class);
    tables.set_control(&control)?;
    tables.classes.set(u32::from(class), &ClassEntry::of(service))?;
    Ok(class)
}

/// Makes the program tell the services with a class apart. Commands read `CLASSES` only, and the program `SERVICES`
/// only. So each change of a class ends here.
///
/// While a change replaces a range of ports, two services have the same port. It belongs to the one in `last`.
pub fn tell_apart(tables: &mut Tables, last: &[Service]) -> Result<(), Error> {
    let mut services = Services::read(tables)?.0;
    services.sort_by_key(|(service, _)| last.contains(service));
    tables.set_services(&services)
}

/// Checks that no service has a port of another one. Services without rules and costs do not count.
///
/// # Errors
///
/// [`ServicesError::Overlap`] with the first two.
pub fn check_ports(tables: &Tables, wanted: &[Service]) -> Result<(), Error> {
    let services = Services::read(tables)?;
    let mut in_use: Option<[bool; CLASSES]> = None;
    for (service, class) in services.iter() {
        let Some(wanted) = wanted.iter().find(|wanted| wanted.overlaps(service)) else { continue };
        let in_use = match &in_use {
            Some(in_use) => in_use,
            None => in_use.insert(used(tables)?),
        };
        if in_use[usize::from(class)] {
            let [service, other] = [*wanted, service].map(|service| ServiceName(service).to_string());
            return Err(ServicesError::Overlap { service, other }.into());
        }
    }
    Ok(())
}

/// Makes the program tell apart exactly the services that rules name, after a change that was killed.
pub fn repair(tables: &mut Tables) -> Result<(), Error> {
    forget_unused(tables)?;
    tell_apart(tables, &[])
}

/// Removes the class of every service without rules. Its packets then belong to the wider services.
pub fn forget_unused(tables: &mut Tables) -> Result<(), Error> {
    let services = Services::read(tables)?;
    if services.is_empty() {
        return Ok(());
    }
    let used = used(tables)?;
    let unused: Vec<Class> =
        services.iter().map(|(_, class)| class).filter(|class| !used[usize::from(*class)]).collect();
    if unused.is_empty() {
        return Ok(());
    }
    let acting: Vec<_> = services.iter().filter(|(_, class)| used[usize::from(*class)]).collect();
    tables.set_services(&acting)?;
    // A packet that the program has begun can still create a bucket of such a class.
    rcu::wait();
    // Another service may get the class later. It must not find the debt of this one.
    let is_stale = |source: &Source| unused.iter().any(|class| source.class.to_le_bytes().contains(class));
    let bans = tables.bans()?;
    bans.all().iter().filter(|(source, _)| is_stale(source)).for_each(|(source, _)| bans.lift(source));
    let mut stale = Vec::new();
    bpf::each::<Source, Bucket>(IterableMap::map(tables.buckets.open()?).fd().as_fd(), |source, _| {
        stale.extend(Some(source).filter(is_stale));
    })?;
    bpf::each::<Source, Log>(IterableMap::map(tables.logs.open()?).fd().as_fd(), |source, _| {
        stale.extend(Some(source).filter(is_stale));
    })?;
    for source in &stale {
        // The program may have evicted it meanwhile.
        let _ = tables.buckets.open_mut()?.remove(source);
        let _ = tables.logs.open_mut()?.remove(source);
    }
    // Last, so that a command that finds the classes knows that they may have such buckets.
    unused.iter().try_for_each(|class| tables.classes.set(u32::from(*class), &ClassEntry::default()))
}

/// Returns for each class whether a rule names it.
fn used(tables: &Tables) -> Result<[bool; CLASSES], Error> {
    let mut used = [false; CLASSES];
    for (used, entry) in used.iter_mut().zip(tables.classes.all()?) {
        *used = entry.default_policy != 0 || entry.cost != 0;
    }
    for (source, _) in rule_maps::sources(tables)?.into_iter().chain(rule_maps::prefixes(tables)?) {
        used[usize::from(source.class) % CLASSES] = true;
    }
    Ok(used)
}
