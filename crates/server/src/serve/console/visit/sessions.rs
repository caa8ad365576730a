//! Sessions of browsers, in memory and within bounds: only a token that is known begins one.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use ring::digest::{SHA256, digest};
use rustix::rand::{GetRandomFlags, getrandom};

/// How long a session lasts without a page that the person has opened.
const IDLE: Duration = Duration::from_secs(3_600);
/// How long a session lasts at most.
const LONGEST: Duration = Duration::from_secs(12 * 3_600);
/// The most sessions of a token. A further one ends the one that nobody has used for longest.
const MOST: usize = 16;

/// All sessions, by the hashes of their names. A name is in the cookie of one browser only.
#[derive(Debug, Default)]
pub(in crate::serve::console) struct Sessions(Mutex<HashMap<[u8; 32], Session>>);

#[derive(Debug, Clone, Copy)]
struct Session {
    /// The hash of the token.
    token: [u8; 32],
    begun: Instant,
    seen: Instant,
}

impl Session {
    fn is_over(&self, now: Instant) -> bool {
        now.duration_since(self.seen) > IDLE || now.duration_since(self.begun) > LONGEST
    }
}

impl Sessions {
    /// Begins a session for the token with this hash. Returns its name. None without random numbers.
    pub(in crate::serve::console) fn begin(&self, token: [u8; 32], now: Instant) -> Option<String> {
        let mut name = [0; 32];
        getrandom(&mut name, GetRandomFlags::empty()).ok()?;
        let name = hex(&name);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, session| !session.is_over(now));
        let of_token = || all.iter().filter(|(_, session)| session.token == token);
        if of_token().count() >= MOST
            && let Some(oldest) = of_token().min_by_key(|(_, session)| session.seen).map(|(hash, _)| *hash)
        {
            all.remove(&oldest);
        }
        all.insert(hash(&name)?, Session { token, begun: now, seen: now });
        Some(name)
    }

    /// Returns the hash of the token of a session. `is_live` tells that the page itself has asked, and no person.
    pub(in crate::serve::console) fn find(&self, name: &str, is_live: bool, now: Instant) -> Option<[u8; 32]> {
        let hash = hash(name)?;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let session = all.get_mut(&hash)?;
        if session.is_over(now) {
            all.remove(&hash);
            return None;
        }
        if !is_live {
            session.seen = now;
        }
        Some(session.token)
    }

    /// Ends a session.
    pub(in crate::serve::console) fn end(&self, name: &str) {
        if let Some(hash) = hash(name) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&hash);
        }
    }
}

fn hash(name: &str) -> Option<[u8; 32]> {
    digest(&SHA256, name.as_bytes()).as_ref().try_into().ok()
}

/// Returns bytes in hexadecimal.
pub(in crate::serve::console) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_ends_after_an_hour_without_its_person_and_after_half_a_day() {
        let (sessions, begin) = (Sessions::default(), Instant::now());
        let at = |minutes: u64| begin + Duration::from_secs(60 * minutes);
        let name = sessions.begin([1; 32], begin).unwrap();
        assert_eq!(sessions.find(&name, false, at(50)), Some([1; 32]));
        assert_eq!(sessions.find("other", false, at(50)), None);
        // The page asks by itself.
        assert_eq!(sessions.find(&name, true, at(100)), Some([1; 32]));
        assert_eq!(sessions.find(&name, true, at(111)), None);
        let name = sessions.begin([1; 32], begin).unwrap();
        assert!((1..=14).all(|step| sessions.find(&name, false, at(50 * step)).is_some()));
        assert_eq!(sessions.find(&name, false, at(12 * 60 + 1)), None);
        let name = sessions.begin([1; 32], begin).unwrap();
        sessions.end(&name);
        assert_eq!(sessions.find(&name, false, begin), None);
    }

    #[test]
    fn a_token_has_few_sessions_and_takes_none_from_others() {
        let (sessions, begin) = (Sessions::default(), Instant::now());
        let other = sessions.begin([2; 32], begin).unwrap();
        let names: Vec<_> = (0..100).map(|_| sessions.begin([1; 32], begin).unwrap()).collect();
        assert_eq!(names.iter().filter(|name| sessions.find(name, false, begin).is_some()).count(), MOST);
        assert_eq!(sessions.find(&other, false, begin), Some([2; 32]));
    }
}
