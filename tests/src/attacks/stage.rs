//! The product on two links of a sandbox: one with the packets of an attacker, the other with those of honest sources.
//! Limits, cells and buckets are the same for both links, and the product counts the packets of each.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    num::NonZero,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use ratelimit_common::{
    cells::cell,
    identity::source::Source,
    limits::limit::{Rate, SECOND},
    maps::{control::IPV6_PREFIX_DEFAULT, interface_counters::Counts},
    reason::Reason,
};
use ratelimit_dataplane::{
    instance::read_only::View, pins::layout::PINS, readings::interface_counters::Shares, sys::host,
};
use rustix::net::{AddressFamily, SocketType, netdevice::name_to_index, socket};

use super::row::{Packets, Row};
use crate::{Flood, Frame, PATIENCE, PEER_LINK, Ratelimit, Running, Sandbox, VICTIM_LINK, send_raw, tokens};

/// Destination port of UDP packets, without a listener.
pub(super) const PORT: u16 = 9;
/// First address of honest sources.
pub(super) const HONEST: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// First address of an attacker that uses a range of addresses.
pub(super) const FORGED: Ipv4Addr = Ipv4Addr::new(11, 0, 0, 1);
/// The link of honest sources. The sandbox's first link is the attacker's.
const HONEST_LINK: &str = "honest0";
const HONEST_PEER_LINK: &str = "honest1";
/// Places of the two links in pairs of counts.
const ATTACKER: usize = 0;
const OTHERS: usize = 1;
/// Forged sources of each CPU without repetition, more than it sends from in any attack.
pub(super) const SHARE: u32 = 1 << 26;

/// One attack in progress.
pub(super) struct Stage {
    sandbox: Sandbox,
    setup: &'static str,
    /// Indices of the two links.
    links: [u32; 2],
    /// Packets sent on each.
    sent: [u64; 2],
    /// What was counted when the attack began.
    before: [Packets; 2],
    begin: u64,
}

impl Stage {
    /// Attaches with the options before the first semicolon, and runs the commands behind it.
    pub(super) fn new(setup: &'static str) -> Self {
        Self::on(Sandbox::new(), setup)
    }

    /// Does the same in a sandbox that is prepared.
    pub(super) fn on(sandbox: Sandbox, setup: &'static str) -> Self {
        sandbox.add_link(HONEST_LINK, HONEST_PEER_LINK);
        let ratelimit = Ratelimit::new(&sandbox);
        let mut commands = setup.split("; ");
        let options = commands.next().unwrap_or_default();
        ratelimit.ok(&format!("attach {VICTIM_LINK} {HONEST_LINK} {options}"));
        commands.for_each(|command| drop(ratelimit.ok(command)));
        let links = sandbox.victim(|| [VICTIM_LINK, HONEST_LINK].map(index));
        Self { sandbox, setup, links, sent: [0; 2], before: Default::default(), begin: host::now() }
    }

    pub(super) fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    pub(super) fn ratelimit(&self) -> Ratelimit<'_> {
        Ratelimit::new(&self.sandbox)
    }

    /// Sends packets of the attacker.
    pub(super) fn attack(&mut self, flood: &Flood, packets: u64) {
        flood.send(&self.sandbox, packets);
        self.sent[ATTACKER] += packets;
    }

    /// Sends a frame of the attacker several times from a socket.
    pub(super) fn attack_raw(&mut self, frame: &[u8], packets: usize) {
        self.sandbox.peer(|| send_raw(PEER_LINK, frame, packets));
        self.sent[ATTACKER] += packets as u64;
    }

    /// Does something while up to two CPUs send packets of the attacker as fast as they can. `flood` makes the flood of
    /// each CPU.
    pub(super) fn during(&mut self, flood: impl Fn(u32) -> Flood, work: impl FnOnce(&mut Self)) {
        let floods = 0..cpus().min(2);
        let running: Vec<_> = floods.map(|cpu| flood(cpu as u32).on_cpu(cpu).start(&self.sandbox)).collect();
        work(self);
        self.sent[ATTACKER] += running.into_iter().map(Running::stop).sum::<u64>();
    }

    /// Sends packets of honest sources evenly, on a CPU that an attacker uses too.
    pub(super) fn honest(&mut self, flood: &Flood, packets: u64, per_second: u64) {
        flood.clone().through(HONEST_PEER_LINK).on_cpu(0).pace(per_second).send(&self.sandbox, packets);
        self.sent[OTHERS] += packets;
    }

    /// Forgets the packets so far, which prepared the attack.
    pub(super) fn begin(&mut self) {
        self.before = self.arrived();
        self.begin = host::now();
    }

    /// Returns the packets of the attacker since the beginning.
    pub(super) fn attackers(&self) -> Packets {
        self.since()[ATTACKER]
    }

    /// Returns how many packets one limit may admit since the beginning (G1).
    pub(super) fn bound(&self, amount: u64, burst: u64) -> u64 {
        self.bound_per(Rate { amount, period: SECOND }, burst)
    }

    pub(super) fn bound_per(&self, rate: Rate, burst: u64) -> u64 {
        tokens::bound(rate, burst, host::now() - self.begin)
    }

    /// Returns how many of these sources share the cell of the attacker. The cells have random places in each instance.
    pub(super) fn neighbours(&self, attacker: Ipv6Addr, sources: impl Iterator<Item = Ipv6Addr>) -> u64 {
        let view = self.sandbox.victim(|| View::open(Path::new(PINS))).expect("cannot open the instance");
        let tables = view.tables();
        let seed = tables.control().expect("cannot read the seed").seed;
        let cells = tables.front.open().expect("cannot open the cells").len();
        let cell_of =
            |address: Ipv6Addr| cell::index(Source::v6(address.octets(), IPV6_PREFIX_DEFAULT as u8).hash(&seed), cells);
        sources.filter(|address| cell_of(*address) == cell_of(attacker)).count() as u64
    }

    /// Ends the attack.
    pub(super) fn row(self, attack: &'static str, may_pass: Option<u64>) -> Row {
        let forged = self.attackers();
        self.row_of(attack, forged, may_pass)
    }

    /// Ends an attack of which only these packets count.
    pub(super) fn row_of(self, attack: &'static str, forged: Packets, may_pass: Option<u64>) -> Row {
        let honest = self.since()[OTHERS];
        self.ratelimit().ok("detach --all");
        Row { attack, setup: self.setup, forged, may_pass, honest, may_lose: 0 }
    }

    fn since(&self) -> [Packets; 2] {
        let now = self.arrived();
        [ATTACKER, OTHERS].map(|link| now[link].since(self.before[link]))
    }

    /// Waits until all packets have arrived, and returns the counts of both links.
    fn arrived(&self) -> [Packets; 2] {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let counted = self.counted();
            if counted.map(|packets| packets.offered) == self.sent {
                return counted;
            }
            assert!(Instant::now() < deadline, "{counted:?} are counted, {:?} were sent", self.sent);
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn counted(&self) -> [Packets; 2] {
        self.sandbox.victim(|| {
            let view = View::open(Path::new(PINS)).expect("cannot open the instance");
            let shares = Shares::of(view.tables(), &self.links.into()).expect("cannot read the counters");
            self.links.map(|link| {
                let share = shares.interfaces.iter().find(|(index, _)| *index == link);
                packets(&share.and_then(|(_, counts)| *counts).expect("the link has no counter"))
            })
        })
    }
}

/// Whatever the reason, a packet that passes has passed.
fn packets(counts: &Counts) -> Packets {
    let mut packets = Packets::default();
    for (reason, count) in Reason::ALL.into_iter().zip(counts.done) {
        packets.offered += count.packets;
        packets.passed += if reason.passes() { count.packets } else { 0 };
    }
    packets
}

/// Returns a flood of UDP packets, each from another address. Parts do not share addresses.
pub(super) fn from_everywhere(part: u32) -> Flood {
    Flood::of(Frame::udp(FORGED, PORT)).endless(part * SHARE)
}

/// Returns UDP packets from this many honest sources in turn.
pub(super) fn honest_sources(count: u32) -> Flood {
    Flood::of(Frame::udp(HONEST, PORT)).sources(count)
}

pub(super) fn cpus() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

fn index(link: &str) -> u32 {
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None).expect("cannot open a socket");
    name_to_index(socket, link).expect("the link is missing")
}
