//! A map by the hash of a source, in the order of the places of leases. So a walk through the map reads their memory in
//! its order, which is twice as fast.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

/// A map by the hash of a source.
pub(super) type ByHash<T> = HashMap<u64, T, BuildHasherDefault<Place>>;

/// Takes the hash of a source as it is. It has a secret seed, so that nobody can choose sources with equal hashes.
#[derive(Default)]
pub(super) struct Place(u64);

impl Hasher for Place {
    fn write_u64(&mut self, hash: u64) {
        // The upper half selects the place of a lease, and the lower bits that in the map.
        self.0 = hash.rotate_left(32);
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use ratelimit_common::fleet::lease::{LEASES, first_place};

    use super::*;

    #[test]
    fn a_walk_through_the_map_visits_places_in_their_order() {
        let mut map = ByHash::default();
        for number in 1..=10_000u64 {
            map.insert(number.wrapping_mul(0x9e37_79b9_7f4a_7c15), ());
        }
        let places: Vec<_> = map.keys().map(|hash| first_place(*hash, LEASES / 2)).collect();
        let steps = places.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) <= 64).count();
        assert!(steps > 9_000, "{steps}");
    }
}
