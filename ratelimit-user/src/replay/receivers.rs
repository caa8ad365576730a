//! Finds the host's own address in a capture that does not tell which packets the host has sent.

use std::{cmp::Reverse, collections::HashMap, net::IpAddr};

/// The most addresses. The host's own is one of the first that receive packets.
const MOST: usize = 1 << 10;

/// How many packets the first receivers of a capture have received and sent.
#[derive(Debug, Default)]
pub(crate) struct Receivers {
    counts: HashMap<IpAddr, Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    received: u64,
    sent: u64,
}

impl Receivers {
    /// Adds a packet.
    pub(super) fn add(&mut self, [sender, receiver]: [IpAddr; 2]) {
        if let Some(counts) = self.counts.get_mut(&sender) {
            counts.sent += 1;
        }
        if self.counts.len() < MOST || self.counts.contains_key(&receiver) {
            self.counts.entry(receiver).or_default().received += 1;
        }
    }

    /// Returns the address that has received most packets and has sent some, and how many it has sent. None if no
    /// receiver has sent any, as in a capture of incoming packets.
    pub(crate) fn own(&self) -> Option<(IpAddr, u64)> {
        let both = self.counts.iter().filter(|(_, counts)| counts.sent != 0);
        let own = both.max_by_key(|(address, counts)| (counts.received, counts.sent, Reverse(**address)));
        own.map(|(address, counts)| (*address, counts.sent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_address_is_the_one_that_receives_most_and_sends() {
        let (host, mut receivers) = (IpAddr::from([192, 0, 2, 1]), Receivers::default());
        let peer = |n: u32| IpAddr::from(n.to_be_bytes());
        for n in 0..10 {
            receivers.add([peer(n), host]);
            receivers.add([peer(n), IpAddr::from([255; 4])]);
        }
        assert_eq!(receivers.own(), None);
        for n in 0..5 {
            receivers.add([host, peer(n)]);
            receivers.add([peer(n), host]);
        }
        assert_eq!(receivers.own(), Some((host, 5)));
        (0..100_000).for_each(|n| receivers.add([host, peer(n)]));
        assert!(receivers.counts.len() == MOST);
        assert_eq!(receivers.own(), Some((host, 100_005)));
    }
}
