//! What another host has counted. Merging takes the highest count, so that repeated and reordered datagrams change
//! nothing.

use std::collections::HashMap;

use super::{datagram::Told, seal::Name};

/// The latest count of one record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Entry {
    birth: u32,
    offered: f64,
    admitted: f64,
    /// The demand of the host, and the level of its record, with its last report.
    pub(super) own: f32,
    pub(super) level: f32,
    /// When that arrived, in seconds.
    pub(super) at: f64,
}

/// The counts of one host.
#[derive(Debug, Default)]
pub(super) struct Counts {
    entries: HashMap<Name, Entry>,
    /// Counts that began before this one have been going on for an unknown time.
    base: u32,
}

/// What a host has counted since its last report.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Grown {
    pub(super) offered: f64,
    pub(super) admitted: f64,
    /// Whether this is its first report of the record.
    pub(super) is_first: bool,
}

/// What a report changes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Merged {
    /// The host has counted more.
    Grown(Grown),
    /// Nothing.
    Nothing,
    /// There is no room for another record.
    Full,
}

impl Counts {
    /// Begins with a host that has begun so many counts.
    pub(super) fn of(births: u32) -> Self {
        Self { entries: HashMap::new(), base: births }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn get(&self, name: &Name) -> Option<&Entry> {
        self.entries.get(name)
    }

    /// Takes a report. Without `may_begin`, it is no newer than others, so that it begins no record.
    pub(super) fn merge(&mut self, told: &Told, may_begin: bool, has_room: bool, now: f64) -> Merged {
        let before = self.entries.get(&told.name).copied();
        let (counted, is_first) = match before {
            Some(before) if told.birth == before.birth => ([before.offered, before.admitted], false),
            Some(before) if told.birth < before.birth || !may_begin => return Merged::Nothing,
            Some(_) => ([0.0; 2], false),
            None if !may_begin => return Merged::Nothing,
            None if !has_room => {
                self.base = self.base.max(told.birth);
                return Merged::Full;
            }
            None if told.birth > self.base => ([0.0; 2], true),
            // Packets from an unknown time ago do not count against the source.
            None => ([told.offered, told.admitted], true),
        };
        let offered = (told.offered - counted[0]).max(0.0);
        let admitted = (told.admitted - counted[1]).max(0.0);
        if offered + admitted <= 0.0 && before.is_some() {
            return Merged::Nothing;
        }
        let entry = Entry {
            birth: told.birth,
            offered: told.offered.max(counted[0]),
            admitted: told.admitted.max(counted[1]),
            own: told.own,
            level: told.level,
            at: now,
        };
        self.entries.insert(told.name, entry);
        Merged::Grown(Grown { offered, admitted, is_first })
    }

    /// Forgets records of which nothing was heard since a time.
    pub(super) fn forget(&mut self, since: f64) {
        let base = &mut self.base;
        self.entries.retain(|_, entry| {
            if entry.at < since {
                *base = (*base).max(entry.birth);
            }
            entry.at >= since
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(birth: u32, offered: f64, admitted: f64) -> Told {
        Told { name: [1; 16], birth, offered, admitted, own: 1.0, level: 0.0 }
    }

    fn grown(offered: f64, admitted: f64, is_first: bool) -> Merged {
        Merged::Grown(Grown { offered, admitted, is_first })
    }

    #[test]
    fn a_count_that_began_while_the_host_was_known_counts_from_0() {
        let mut counts = Counts::of(4);
        assert_eq!(counts.merge(&told(5, 7.0, 3.0), true, true, 0.0), grown(7.0, 3.0, true));
        assert_eq!(counts.merge(&told(5, 9.0, 3.0), true, true, 0.0), grown(2.0, 0.0, false));
        for older in [told(5, 9.0, 3.0), told(5, 7.0, 3.0), told(4, 1e6, 1e6)] {
            assert_eq!(counts.merge(&older, true, true, 0.0), Merged::Nothing);
        }
        assert_eq!(counts.merge(&told(6, 1.0, 1.0), true, true, 0.0), grown(1.0, 1.0, false));
    }

    #[test]
    fn a_count_from_before_does_not_count_as_a_whole() {
        let mut counts = Counts::of(4);
        assert_eq!(counts.merge(&told(4, 1e6, 1e6), true, true, 0.0), grown(0.0, 0.0, true));
        assert_eq!(counts.merge(&told(4, 1e6 + 2.0, 1e6 + 1.0), true, true, 0.0), grown(2.0, 1.0, false));
        // Neither does one that was forgotten meanwhile.
        let mut counts = Counts::of(0);
        counts.merge(&told(3, 5.0, 5.0), true, true, 0.0);
        counts.forget(1.0);
        assert_eq!((counts.len(), counts.merge(&told(3, 6.0, 6.0), true, true, 2.0)), (0, grown(0.0, 0.0, true)));
    }

    #[test]
    fn an_old_datagram_begins_nothing_and_a_full_table_takes_nothing_new() {
        let mut counts = Counts::of(0);
        assert_eq!(counts.merge(&told(1, 5.0, 5.0), false, true, 0.0), Merged::Nothing);
        assert_eq!(counts.merge(&told(1, 5.0, 5.0), true, false, 0.0), Merged::Full);
        assert_eq!(counts.len(), 0);
        // What it has counted meanwhile is unknown.
        assert_eq!(counts.merge(&told(1, 9.0, 9.0), true, true, 0.0), grown(0.0, 0.0, true));
    }
}
