//! What became of the packets of each source, within a bounded memory.

use std::{cmp::Reverse, collections::HashMap};

use ratelimit_common::{
    identity::source::Source,
    reason::{Count, Reason},
};
use smallvec::SmallVec;

/// The most sources. Beyond that, those with the fewest packets are counted together.
const MOST: usize = 1 << 19;

/// What became of some packets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fate {
    /// All packets.
    pub(crate) all: Count,
    /// The dropped ones.
    pub(crate) dropped: Count,
    /// Dropped packets by reason.
    reasons: SmallVec<[(Reason, u64); 2]>,
}

impl Fate {
    fn add(&mut self, bytes: u64, drop: Option<Reason>) {
        let one = Count { packets: 1, bytes };
        plus(&mut self.all, one);
        if let Some(reason) = drop {
            plus(&mut self.dropped, one);
            self.count(reason, 1);
        }
    }

    fn count(&mut self, reason: Reason, packets: u64) {
        match self.reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, counted)) => *counted += packets,
            None => self.reasons.push((reason, packets)),
        }
    }

    fn join(&mut self, other: &Self) {
        plus(&mut self.all, other.all);
        plus(&mut self.dropped, other.dropped);
        other.reasons.iter().for_each(|(reason, packets)| self.count(*reason, *packets));
    }

    /// Returns the packets that passed.
    pub(crate) fn passed(&self) -> Count {
        Count { packets: self.all.packets - self.dropped.packets, bytes: self.all.bytes - self.dropped.bytes }
    }

    /// Returns the dropped packets by reason, the most frequent reason first.
    pub(crate) fn reasons(&self) -> Vec<(Reason, u64)> {
        let mut reasons = self.reasons.to_vec();
        reasons.sort_by_key(|(reason, packets)| (Reverse(*packets), *reason as usize));
        reasons
    }
}

/// The fates of all packets.
#[derive(Debug)]
pub(crate) struct Tally {
    sources: HashMap<Source, Fate>,
    most: usize,
    /// All packets.
    pub(crate) total: Fate,
    /// Packets that are not IP.
    pub(crate) others: Fate,
    /// Packets of sources that were forgotten. Such a source begins anew with its next packet.
    pub(crate) forgotten: Fate,
    /// How often sources were forgotten.
    pub(crate) rounds: usize,
}

impl Default for Tally {
    fn default() -> Self {
        Self::of(MOST)
    }
}

impl Tally {
    fn of(most: usize) -> Self {
        let none = Fate::default();
        Self { sources: HashMap::new(), most, total: none.clone(), others: none.clone(), forgotten: none, rounds: 0 }
    }

    /// Adds a packet, and for which reason it was dropped.
    pub(crate) fn add(&mut self, source: Option<Source>, bytes: u64, drop: Option<Reason>) {
        self.total.add(bytes, drop);
        let Some(source) = source else { return self.others.add(bytes, drop) };
        if self.sources.len() >= self.most && !self.sources.contains_key(&source) {
            self.forget();
        }
        self.sources.entry(source).or_default().add(bytes, drop);
    }

    /// Forgets the half of the sources with the fewest packets.
    fn forget(&mut self) {
        let mut packets: Vec<u64> = self.sources.values().map(|fate| fate.all.packets).collect();
        let middle = packets.len() / 2;
        let (_, most, _) = packets.select_nth_unstable(middle);
        let (most, forgotten) = (*most, &mut self.forgotten);
        self.rounds += 1;
        self.sources.retain(|_, fate| {
            let stays = fate.all.packets > most;
            if !stays {
                forgotten.join(fate);
            }
            stays
        });
    }

    /// Returns the number of sources that are known at the end.
    pub(crate) fn len(&self) -> usize {
        self.sources.len()
    }

    /// Returns the sources with the most dropped packets, and then those with the most packets.
    pub(crate) fn worst(&self, count: usize) -> Vec<(&Source, &Fate)> {
        let mut all: Vec<_> = self.sources.iter().collect();
        let order = |(source, fate): &(&Source, &Fate)| {
            (Reverse(fate.dropped.packets), Reverse(fate.all.packets), source.family, source.address(), source.prefix)
        };
        if count < all.len() {
            all.select_nth_unstable_by_key(count, order);
            all.truncate(count);
        }
        all.sort_unstable_by_key(order);
        all
    }
}

fn plus(count: &mut Count, other: Count) {
    count.packets += other.packets;
    count.bytes = count.bytes.saturating_add(other.bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_of_senders_takes_bounded_space_and_no_packet_is_lost() {
        let mut tally = Tally::of(100);
        let heavy = Source::v4([192, 0, 2, 1]);
        for n in 0..1_000u32 {
            tally.add(Some(Source::v4(n.to_be_bytes())), 60, (n % 2 == 0).then_some(Reason::NotAdmitted));
            tally.add(Some(heavy), 100, Some(Reason::OverPackets));
        }
        tally.add(None, 42, None);
        assert!(tally.len() <= 100 && tally.rounds > 1);
        assert_eq!(tally.total.all, Count { packets: 2_001, bytes: 160_042 });
        assert_eq!(tally.total.reasons(), [(Reason::OverPackets, 1_000), (Reason::NotAdmitted, 500)]);
        let [(worst, fate)] = tally.worst(1)[..] else { panic!("no source") };
        assert_eq!((*worst, fate.dropped.packets, fate.passed()), (heavy, 1_000, Count::default()));
        let kept: u64 = tally.worst(100).iter().map(|(_, fate)| fate.all.packets).sum();
        assert_eq!(kept + tally.forgotten.all.packets + tally.others.all.packets, 2_001);
    }
}
