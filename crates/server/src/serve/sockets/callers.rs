//! How many connections each caller has, so that one of them cannot take all.

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

/// The number of connections of each caller that has one.
type Open = Arc<Mutex<HashMap<Caller, usize>>>;

/// The open connections of all callers.
#[derive(Debug)]
pub(super) struct Callers {
    /// The most connections of one of them.
    most: usize,
    open: Open,
    told: Mutex<Option<Instant>>,
}

/// The place of a connection, until it is dropped. None for a caller that is not counted.
#[derive(Debug)]
pub(super) struct Place(Option<(Open, Caller)>);

impl Callers {
    pub(super) fn new(most: usize) -> Self {
        Self { most, open: Arc::default(), told: Mutex::default() }
    }

    /// Returns the place of another connection, if the caller may have one.
    pub(super) fn admit(&self, caller: Option<Caller>) -> Option<Place> {
        let Some(caller) = caller else { return Some(Place(None)) };
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(caller).or_default();
        if *count >= self.most {
            drop(open);
            self.tell(caller);
            return None;
        }
        *count += 1;
        Some(Place(Some((Arc::clone(&self.open), caller))))
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

impl Drop for Place {
    fn drop(&mut self) {
        let Some((open, caller)) = &self.0 else { return };
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(caller) {
            *count -= 1;
            if *count == 0 {
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
    fn a_network_of_ipv6_is_one_caller_and_programs_that_share_an_address_are_not_counted() {
        assert_eq!(at("2001:db8::1"), at("2001:db8::ffff:1"));
        assert_ne!(at("2001:db8::1"), at("2001:db8:0:1::1"));
        assert_eq!(at("2001:db8::1").unwrap().to_string(), "2001:db8::/64");
        assert_eq!([at("127.0.0.1"), at("::1"), Caller::process(Some(0)), Caller::process(None)], [None; 4]);
        assert_eq!(Caller::process(Some(17)).unwrap().to_string(), "the process 17");
    }
}
