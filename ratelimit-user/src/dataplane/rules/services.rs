//! Which class a service has. It has one as long as a rule is about it.

use ratelimit_common::{
    identity::{
        class::{ANY, CLASSES, Class, Classes},
        service::{self, ClassEntry, Service},
        source::Source,
    },
    maps::control::FEATURE_SERVICES,
};

use crate::dataplane::{Error, error::Tried as _, tables::open::Tables};

/// Services that can have rules at a time.
const MOST_SERVICES: usize = CLASSES - 1;

/// All services that have a class.
#[derive(Debug, Clone)]
pub struct Services(Vec<(Service, Class)>);

impl Services {
    /// Reads them.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] where the kernel refuses.
    pub fn read(tables: &Tables) -> Result<Self, Error> {
        let mut services = Vec::new();
        for class in 1..=Class::MAX {
            let service = tables.class(class)?.service();
            if service != Service::Any {
                services.push((service, class));
            }
        }
        Ok(Self(services))
    }

    /// Those that the running program tells apart, at once where there are none.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] where the kernel refuses.
    pub fn told_apart(tables: &Tables) -> Result<Self, Error> {
        if tables.control()?.features & FEATURE_SERVICES == 0 { Ok(Self(Vec::new())) } else { Self::read(tables) }
    }

    /// Whether rules are about any.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each with its class.
    pub fn iter(&self) -> impl Iterator<Item = (Service, Class)> + '_ {
        self.0.iter().copied()
    }

    /// The class of a service, if it has one.
    #[must_use]
    pub fn class(&self, service: Service) -> Option<Class> {
        let all = [(Service::Any, ANY)].into_iter().chain(self.iter());
        all.filter(|(of, _)| *of == service).map(|(_, class)| class).next()
    }

    /// The service of a class, if it is one's.
    #[must_use]
    pub fn of_class(&self, class: Class) -> Option<Service> {
        let all = [(Service::Any, ANY)].into_iter().chain(self.iter());
        all.filter(|(_, of)| *of == class).map(|(service, _)| service).next()
    }

    /// The service that a bucket's key is about, and the classes of its packets. New connections to a port with rules of its own
    /// have buckets apart from others, as long as a rule decides about them that needs no bucket: those are the port's.
    #[must_use]
    pub fn of_key(&self, source: &Source) -> (Service, Classes) {
        let [class, telling] = source.class.to_le_bytes();
        let service = self.of_class(class).unwrap_or_default();
        match self.of_class(telling) {
            Some(Service::Port(transport, port)) => (Service::Port(transport, port), self.classes_of_new(port)),
            _ => (service, self.classes(service)),
        }
    }

    /// The classes of packets that ask for a new connection to `port`.
    #[must_use]
    pub fn classes_of_new(&self, port: u16) -> Classes {
        service::classes_of_new(&self.0, port)
    }

    /// The classes of packets that `service` is the narrowest for.
    #[must_use]
    pub fn classes(&self, service: Service) -> Classes {
        service::classes(&self.0, service)
    }
}

/// The class of a service, which gets one if it has none.
///
/// # Errors
///
/// [`Error::TooManyServices`] where all are taken.
pub(crate) fn ensure_class(tables: &mut Tables, service: Service) -> Result<Class, Error> {
    let mut services = Services::read(tables)?;
    if let Some(class) = services.class(service) {
        return Ok(class);
    }
    let is_free = |class: &Class| services.iter().all(|(_, taken)| taken != *class);
    // Not the one that has just become free: buckets of a service are removed with its class, but cells may remember it for a while.
    let mut control = tables.control()?;
    let last = control.last_class as Class;
    let class = (last.saturating_add(1)..=Class::MAX).chain(1..=last).find(is_free);
    let class = class.ok_or(Error::TooManyServices(MOST_SERVICES))?;
    control.last_class = u32::from(class);
    tables.set_control(&control)?;
    tables.classes.set(u32::from(class), ClassEntry::of(service), 0).tried("cannot write a class")?;
    services.0.push((service, class));
    tables.set_services(&services.0)?;
    Ok(class)
}

/// Takes the class away from every service that no rule is about any more. Their packets are of the wider services then.
pub(crate) fn forget_unused(tables: &mut Tables) -> Result<(), Error> {
    let services = Services::read(tables)?;
    if services.is_empty() {
        return Ok(());
    }
    let used = used(tables)?;
    let (used, unused): (Vec<_>, Vec<_>) = services.iter().partition(|(_, class)| used[usize::from(*class)]);
    if unused.is_empty() {
        return Ok(());
    }
    tables.set_services(&used)?;
    for (_, class) in &unused {
        tables.classes.set(u32::from(*class), ClassEntry::default(), 0).tried("cannot write a class")?;
    }
    // Another service may have the class one day, which must not find what this one owed.
    let is_stale = |source: &Source| unused.iter().any(|(_, class)| source.class.to_le_bytes().contains(class));
    for (source, _) in tables.bans()?.into_iter().filter(|(source, _)| is_stale(source)) {
        let _ = tables.bans.remove(&source);
    }
    let tracked = tables.tracked()?;
    for (source, _) in tracked.iter().filter(|(source, _)| is_stale(source)) {
        // One that has been evicted meanwhile is gone as well.
        let _ = tables.buckets.remove(source);
        let _ = tables.logs.remove(source);
    }
    Ok(())
}

/// Which classes rules are about.
fn used(tables: &Tables) -> Result<[bool; CLASSES], Error> {
    let mut used = [false; CLASSES];
    for (class, used) in (0..=Class::MAX).zip(&mut used) {
        let entry = tables.class(class)?;
        *used = entry.default_policy != 0 || entry.cost != 0;
    }
    for (source, _) in tables.source_rules()?.into_iter().chain(tables.prefix_rules()?) {
        used[usize::from(source.class) % CLASSES] = true;
    }
    Ok(used)
}
