//! What buckets had counted at the last look. Its memory has a fixed size, whatever sources there are.

use super::counts::Counts;

/// Sets of places: 3 MB.
const SETS: usize = 1 << 14;
/// Places of a set. A source has its place in one of them.
const WAYS: usize = 4;

/// The counts of sources at the last look.
#[derive(Debug)]
pub(super) struct Places {
    sets: Box<[[Place; WAYS]]>,
    /// The number of this look. 0 is none.
    look: u32,
    /// Whether the last look has read all buckets and found a place for each.
    knew_all: bool,
    /// Whether this look has found a place for each so far.
    has_all: bool,
    /// Whether this look has ended, and has read all buckets.
    is_whole: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Place {
    hash: u64,
    total: Counts,
    /// Packets between the last two looks.
    recent: u64,
    look: u32,
}

impl Default for Places {
    fn default() -> Self {
        let sets = vec![[Place::default(); WAYS]; SETS].into_boxed_slice();
        Self { sets, look: 0, knew_all: false, has_all: false, is_whole: false }
    }
}

impl Places {
    /// Begins a look.
    pub(super) fn begin(&mut self) {
        self.knew_all = self.is_whole && self.has_all;
        (self.look, self.has_all, self.is_whole) = (self.look.wrapping_add(1).max(1), true, false);
    }

    /// Ends a look, which may have read all buckets.
    pub(super) fn end(&mut self, is_whole: bool) {
        self.is_whole = is_whole;
    }

    /// Notes the counts of a source. Returns what it has sent since the last look. None if that is not known.
    pub(super) fn note(&mut self, hash: u64, total: Counts) -> Option<Counts> {
        let (look, knew_all) = (self.look, self.knew_all);
        let set = self.sets.get_mut((hash >> 32) as usize % SETS)?;
        if let Some(place) = set.iter_mut().find(|place| place.look != 0 && place.hash == hash) {
            // A look further back says nothing about the last minute.
            let is_last = place.look.wrapping_add(1) == look || place.look == look;
            let since = (is_last || knew_all).then(|| total.since(place.total));
            *place = Place { hash, total, recent: since.map_or(0, |since| since.packets), look };
            return since;
        }
        // Where no source was left out, one without a place had no bucket.
        let since = knew_all.then_some(total);
        let recent = since.map_or(0, |since| since.packets);
        let is_old = |place: &Place| place.look == 0 || place.look.wrapping_add(1) != look && place.look != look;
        let least = set.iter_mut().min_by_key(|place| (!is_old(place), place.recent))?;
        if !is_old(least) {
            // One of the two is left out: the one with fewer packets.
            self.has_all = false;
            if least.recent > recent {
                return since;
            }
        }
        *least = Place { hash, total, recent, look };
        since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(packets: u64) -> Counts {
        Counts { packets, ..Counts::default() }
    }

    #[test]
    fn a_source_has_packets_since_the_last_look() {
        let mut places = Places::default();
        places.begin();
        assert_eq!(places.note(7, packets(100)), None);
        places.end(true);
        places.begin();
        assert_eq!(places.note(7, packets(150)), Some(packets(50)));
        // It had no bucket before.
        assert_eq!(places.note(8, packets(30)), Some(packets(30)));
        places.end(false);
        places.begin();
        // Another bucket of it.
        assert_eq!(places.note(7, packets(20)), Some(packets(20)));
        // The last look may have missed it.
        assert_eq!(places.note(9, packets(30)), None);
    }

    #[test]
    fn many_sources_with_few_packets_take_no_place_from_one_with_many() {
        let mut places = Places::default();
        places.begin();
        places.end(true);
        places.begin();
        assert_eq!(places.note(1, packets(10_000)), Some(packets(10_000)));
        places.end(true);
        for round in 1..=3 {
            places.begin();
            // All of them share its set.
            (2..1_000).for_each(|forged| _ = places.note(forged + 1_000 * round, packets(300)));
            assert_eq!(places.note(1, packets(10_000 + round * 500)), Some(packets(500)), "{round}");
            places.end(true);
        }
    }
}
