//! What the daemon knows of its host and of SSH. Nobody waits for a look of another one while that is known.

use std::{
    collections::BTreeSet,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use ratelimit_base::text::prefix::Prefix;
use ratelimit_dataplane::Error;
use ratelimit_protocol::stops::Place;

use super::{Host, Spared, canonical};
use crate::ssh;

/// How long the addresses of this host are known, and those of SSH clients. While somebody looks, twice as long.
const KNOWN: Duration = Duration::from_secs(5);
/// How long a failure to look at this host is known. The applications and commands that ask must not wait for the same
/// failure each time.
const PAUSE: Duration = Duration::from_secs(2);

/// What the daemon knows of its host and of SSH, as it was at a time.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::controller::stops) struct Known {
    host: Host,
    sessions: BTreeSet<IpAddr>,
    ssh: Vec<u16>,
}

impl Known {
    fn read() -> Result<Self, Error> {
        let ssh = ssh::ports();
        let (host, peers) = (Host::read()?, ssh::peers(&ssh)?);
        let sessions = ssh::sessions().into_iter().chain(ssh::session()).map(|session| session.peer).chain(peers);
        Ok(Self { host, sessions: canonical(sessions), ssh })
    }

    /// Returns why a place is not limited, whatever the rules are.
    pub(in crate::controller::stops) fn spares(&self, place: &Place, proxies: &[Prefix]) -> Option<Spared> {
        if self.ssh.contains(&place.port) {
            return Some(Spared::Ssh(place.port));
        }
        self.host.spares(place.source, proxies, &self.sessions)
    }
}

/// What is known, with the number of its change.
type Found = Result<(Arc<Known>, u64), Error>;

/// The last look at the host.
#[derive(Default)]
pub(in crate::controller::stops) struct Looks(Mutex<Looked>);

impl Looks {
    /// Returns what is known at `now`. Looks at the host if that is too old, without a lock.
    pub(in crate::controller::stops) fn known(&self, now: Duration) -> Found {
        let at_hand = self.lock().at_hand(now);
        at_hand.unwrap_or_else(|| {
            let read = Known::read();
            self.lock().conclude(read, now)
        })
    }

    fn lock(&self) -> MutexGuard<'_, Looked> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Default)]
struct Looked {
    known: Option<(Duration, Arc<Known>)>,
    /// The last failure, and when that was.
    failed: Option<(Duration, String)>,
    /// Since when somebody looks.
    looking: Option<Duration>,
    /// How often it has changed what is known.
    changes: u64,
}

impl Looked {
    /// Returns what is known. None if the caller is to look.
    fn at_hand(&mut self, now: Duration) -> Option<Found> {
        let is_within = |at: Duration, time| now.saturating_sub(at) < time;
        let is_looked = self.looking.is_some_and(|since| is_within(since, KNOWN));
        let life = if is_looked { 2 * KNOWN } else { KNOWN };
        if let Some((_, known)) = self.known.as_ref().filter(|(at, _)| is_within(*at, life)) {
            return Some(Ok((Arc::clone(known), self.changes)));
        }
        if let Some((_, error)) = self.failed.as_ref().filter(|(at, _)| is_within(*at, PAUSE)) {
            return Some(Err(Error::Netlink(error.clone())));
        }
        self.looking = Some(now);
        None
    }

    /// Takes what a look has found that began at `now`.
    fn conclude(&mut self, read: Result<Known, Error>, now: Duration) -> Found {
        self.looking = None;
        let known = Arc::new(read.inspect_err(|error| self.failed = Some((now, reason(error))))?);
        // A look that began earlier can end later.
        if self.known.as_ref().is_none_or(|(at, _)| *at <= now) {
            self.changes += u64::from(self.known.as_ref().is_none_or(|(_, old)| *old != known));
            self.known = Some((now, Arc::clone(&known)));
        }
        Ok((known, self.changes))
    }
}

/// Returns an error without what [`Error::Netlink`] says before it.
fn reason(error: &Error) -> String {
    if let Error::Netlink(reason) = error { reason.clone() } else { error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Returns the ports of SSH that are known and the number of the change, or the failure. None if the caller is to look.
    fn at_hand(looked: &mut Looked, now: u64) -> Option<Result<(Vec<u16>, u64), String>> {
        let found = looked.at_hand(seconds(now))?;
        Some(found.map(|(known, changes)| (known.ssh.clone(), changes)).map_err(|error| reason(&error)))
    }

    fn with(port: u16) -> Result<Known, Error> {
        Ok(Known { ssh: vec![port], ..Known::default() })
    }

    #[test]
    fn while_one_looks_others_use_what_is_known_for_a_bounded_time() {
        let mut looked = Looked::default();
        assert_eq!(at_hand(&mut looked, 0), None);
        // Nothing is known, so another one looks too.
        assert_eq!(at_hand(&mut looked, 0), None);
        looked.conclude(with(22), seconds(0)).unwrap();
        let first = Some(Ok((vec![22], 1)));
        assert_eq!([0, 4].map(|now| at_hand(&mut looked, now)), [first.clone(), first.clone()]);
        // The first one that finds it old looks. Its look takes long.
        assert_eq!(at_hand(&mut looked, 5), None);
        assert_eq!([5, 9].map(|now| at_hand(&mut looked, now)), [first.clone(), first]);
        assert_eq!(at_hand(&mut looked, 10), None);
        looked.conclude(with(23), seconds(10)).unwrap();
        // The slow look ends at last. What it has found is older.
        looked.conclude(with(24), seconds(5)).unwrap();
        assert_eq!(at_hand(&mut looked, 11), Some(Ok((vec![23], 2))));
        looked.conclude(with(23), seconds(12)).unwrap();
        assert_eq!(at_hand(&mut looked, 13), Some(Ok((vec![23], 2))));
    }

    #[test]
    fn a_failure_is_known_for_two_seconds() {
        let mut looked = Looked::default();
        assert_eq!(at_hand(&mut looked, 0), None);
        assert!(looked.conclude(Err(Error::Netlink("no".to_owned())), seconds(0)).is_err());
        assert_eq!(at_hand(&mut looked, 1), Some(Err("no".to_owned())));
        assert_eq!(at_hand(&mut looked, 2), None);
    }
}
