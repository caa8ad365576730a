//! All addresses, in bounded memory.

use std::{
    fmt,
    hash::{BuildHasherDefault, Hasher as _},
    net::IpAddr,
};

use ratelimit_limiter::{Attributes, Hashed, identity};
use scc::{HashCache, hash_cache::Entry};
use siphasher::sip128::{Hasher128 as _, SipHasher13};

use super::{
    address::Origin,
    history::{Finding, History},
    who::Who,
};

/// The most addresses. Each counts once for each set of attributes that tells clients apart.
pub(super) const ADDRESSES: usize = 1 << 14;

/// Which clients make almost all requests of their addresses.
///
/// A full table forgets the address that was silent for the longest time in its group of 32. No client of a forgotten
/// address is stopped before enough is known of it again.
pub struct Sharing {
    seed: [u64; 2],
    addresses: HashCache<u128, History, BuildHasherDefault<Hashed>>,
}

impl Sharing {
    /// Begins with nothing. `seed` must be random and secret, so that clients cannot choose addresses of one group.
    pub fn new(seed: [u64; 2]) -> Self {
        let addresses = HashCache::with_capacity_and_hasher(ADDRESSES, ADDRESSES, BuildHasherDefault::default());
        Self { seed, addresses }
    }

    /// Counts a request. Returns whether its client may be stopped, if a rule has refused it.
    pub fn note(
        &self,
        who: &Who,
        origin: Origin,
        attributes: &(impl Attributes + ?Sized),
        is_refused: bool,
        now: u64,
    ) -> Finding {
        // Requests that do not say who asks can be those of any number of people, such as all of an office who have not signed
        // in. So can those of a proxy's clients, and those without a connection are only somebody's word.
        let client = identity(self.seed, &who.names, who.ipv6_prefix, attributes).filter(|_| origin.is_direct);
        match self.note_at(self.key(who, origin.network), client, is_refused, now) {
            Finding::Shared if !origin.is_direct => Finding::Proxied,
            finding => finding,
        }
    }

    fn note_at(&self, key: u128, client: Option<u128>, is_refused: bool, now: u64) -> Finding {
        // Only this keeps in mind that the address was not silent.
        if let Some(mut history) = self.addresses.get_sync(&key) {
            return history.get_mut().note(client, is_refused, now);
        }
        match self.addresses.entry_sync(key) {
            Entry::Occupied(mut history) => history.get_mut().note(client, is_refused, now),
            Entry::Vacant(place) => {
                let (_, mut history) = place.put_entry(History::new(now));
                history.note(client, is_refused, now)
            }
        }
    }

    /// Returns how many addresses it remembers.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.addresses.len()
    }

    fn key(&self, who: &Who, network: IpAddr) -> u128 {
        let [first, second] = self.seed;
        let mut hasher = SipHasher13::new_with_keys(first, second);
        hasher.write_u64(who.id);
        match network {
            IpAddr::V4(v4) => hasher.write(&v4.octets()),
            IpAddr::V6(v6) => hasher.write(&v6.octets()),
        }
        hasher.finish128().as_u128()
    }
}

impl fmt::Debug for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sharing")
    }
}
