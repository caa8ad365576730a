//! How many connections and calls each caller has, so that one of them cannot take all.

use std::{
    collections::HashMap,
    fmt,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use ratelimit_base::{
    notify::journal::{self, Level},
    text::prefix::Prefix,
};
use tokio::sync::Semaphore;

/// Time between two messages about a caller with too many connections.
const QUIET: Duration = Duration::from_secs(60);

/// Whose connections count together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Caller {
    /// An IPv4 address, or the network of an IPv6 address.
    Address(Prefix),
    /// A process on this host.
    Process(i32),
}

impl Caller {
    /// Returns the caller at this address. None if all programs of this host have it.
    pub(super) fn at(address: IpAddr) -> Option<Self> {
        (!address.to_canonical().is_loopback()).then(|| Self::Address(Prefix::network_of(address)))
    }

    /// Returns the caller that is this process. None if the system does not tell its number.
    pub(super) fn process(number: Option<i32>) -> Option<Self> {
        number.filter(|number| *number > 0).map(Self::Process)
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(network) => write!(f, "{network}"),
            Self::Process(number) => write!(f, "the process {number}"),
        }
    }
}

/// The most calls of a caller that are under way at a time, on all of its connections together. Each takes some kilobytes.
const CALLS: usize = 2_048;
/// The same for all callers together that are not counted.
const UNCOUNTED_CALLS: usize = 4 * CALLS;

/// What each caller with a connection has.
type Open = Arc<Mutex<HashMap<Caller, Has>>>;

/// What a caller has.
#[derive(Debug)]
struct Has {
    connections: usize,
    /// The calls that may begin.
    calls: Arc<Semaphore>,
}

/// The open connections of all callers.
#[derive(Debug)]
pub(super) struct Callers {
    /// The most connections of one of them.
    most: usize,
    open: Open,
    uncounted: Arc<Semaphore>,
    told: Mutex<Option<Instant>>,
}

/// The place of a connection, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    /// None for a caller that is not counted.
    counted: Option<(Open, Caller)>,
    calls: Arc<Semaphore>,
}

impl Callers {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            open: Arc::default(),
            uncounted: Arc::new(Semaphore::new(UNCOUNTED_CALLS)),
            told: Mutex::default(),
        }
    }

    /// Returns the place of another connection, if the caller may have one.
    pub(super) fn admit(&self, caller: Option<Caller>) -> Option<Place> {
        let Some(caller) = caller else {
            return Some(Place { counted: None, calls: Arc::clone(&self.uncounted) });
        };
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Has { connections: 0, calls: Arc::new(Semaphore::new(CALLS)) };
        let has = open.entry(caller).or_insert_with(new);
        if has.connections >= self.most {
            drop(open);
            self.tell(caller);
            return None;
        }
        has.connections += 1;
        Some(Place { counted: Some((Arc::clone(&self.open), caller)), calls: Arc::clone(&has.calls) })
    }

    fn tell(&self, caller: Caller) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.is_none_or(|told| told.elapsed() >= QUIET) {
            *told = Some(Instant::now());
            let text = format!("{caller} has {} connections: the server closes further ones", self.most);
            journal::say(Level::Warning, &text);
        }
    }
}

impl Place {
    /// Returns the calls that may begin, on all connections of the caller.
    pub(super) fn calls(&self) -> Arc<Semaphore> {
        Arc::clone(&self.calls)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some((open, caller)) = &self.counted else { return };
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(has) = open.get_mut(caller) {
            has.connections -= 1;
            if has.connections == 0 {
                open.remove(caller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: &str) -> Option<Caller> {
        Caller::at(address.parse().unwrap())
    }

    #[test]
    fn a_caller_has_its_share_of_connections_and_leaves_the_rest_to_others() {
        let callers = Callers::new(2);
        let first = callers.admit(at("192.0.2.1")).unwrap();
        let _second = callers.admit(at("192.0.2.1")).unwrap();
        assert!(callers.admit(at("192.0.2.1")).is_none());
        assert!(callers.admit(at("192.0.2.2")).is_some());
        drop(first);
        let _third = callers.admit(at("192.0.2.1")).unwrap();
        assert!(callers.admit(at("192.0.2.1")).is_none());
        // Callers without a connection are forgotten.
        assert_eq!(callers.open.lock().unwrap().len(), 1);
    }

    #[test]
    fn the_calls_of_all_connections_of_a_caller_count_together() {
        let callers = Callers::new(2);
        let [one, other] = ["192.0.2.1", "192.0.2.2"].map(|address| callers.admit(at(address)).unwrap());
        let again = callers.admit(at("192.0.2.1")).unwrap();
        let _all = one.calls().try_acquire_many_owned(CALLS as u32).unwrap();
        assert!(again.calls().try_acquire_owned().is_err());
        assert!(other.calls().try_acquire_owned().is_ok());
        assert!(callers.admit(None).unwrap().calls().try_acquire_owned().is_ok());
    }

    #[test]
    fn a_network_of_ipv6_is_one_caller_and_programs_that_share_an_address_are_not_counted() {
        assert_eq!(at("2001:db8::1"), at("2001:db8::ffff:1"));
        assert_ne!(at("2001:db8::1"), at("2001:db8:0:1::1"));
        assert_eq!(at("2001:db8::1").unwrap().to_string(), "2001:db8::/64");
        assert_eq!([at("127.0.0.1"), at("::1"), Caller::process(Some(0)), Caller::process(None)], [None; 4]);
        assert_eq!(Caller::process(Some(17)).unwrap().to_string(), "the process 17");
    }
}
