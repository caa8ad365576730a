//! How many look-ups packets can cause.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use ratelimit_common::{
    cells::cell,
    identity::source::Source,
    limits::{
        limit::SECOND,
        policy::{Ban, Policy},
    },
    reason::Reason,
};
use ratelimit_dataplane::program::loader::Settings;
use ratelimit_tests::{Bytecode, PEER_IPV4, VICTIM_IPV4, per_second};

use super::{
    ACK, SYN, above_the_limit, answer_to, bans, datagram, load, looked_up, not_looked_up, on_the_victim, opened,
    opening, segment,
};
use crate::front::{Front, with_and_without_cells};

with_and_without_cells!(
    a_source_has_one_look_up_in_vain_per_second,
    a_packet_that_was_not_looked_up_bans_no_source,
    forged_packets_from_the_address_of_a_peer_cause_few_look_ups_and_cannot_shut_it_out
);

const VICTIM: SocketAddr = SocketAddr::new(IpAddr::V4(VICTIM_IPV4), 9);

fn from(address: u32, port: u16, flags: u8) -> Vec<u8> {
    segment(SocketAddr::new(Ipv4Addr::from_bits(address).into(), port), VICTIM, flags)
}

/// Returns a packet to a port that the kernel chooses for connections.
fn to_chosen_port(port: u16, flags: u8) -> Vec<u8> {
    segment(SocketAddr::new(Ipv4Addr::from_bits(0xc000_0201).into(), port), SocketAddr::new(VICTIM.ip(), 40_000), flags)
}

/// With bans after many drops, each drop is counted, so no refusal is cached.
fn a_source_has_one_look_up_in_vain_per_second(front: Front) {
    on_the_victim(|_| {
        let mut bytecode = Bytecode::with(Settings { bans: true, ..front.settings() });
        let ban = Ban { time: 600 * SECOND, most: 600 * SECOND, after: 60_000, reserved: 0 };
        bytecode.set("default", Policy { ban, ..per_second(1, 1) });
        for second in 1..5 {
            bytecode.set_time(second * SECOND + second);
            for port in 1_000..1_500 {
                bytecode.send(&from(0xc000_0201, port, ACK));
                bytecode.send(&from(0xc000_0201, port, SYN));
            }
            assert_eq!(looked_up(&bytecode), second);
        }
        assert_eq!(not_looked_up(&bytecode), 0);
    });
}

fn forged_packets_from_the_address_of_a_peer_cause_few_look_ups_and_cannot_shut_it_out(front: Front) {
    on_the_victim(|sandbox| {
        let mut bytecode = load(front.settings());
        let (own, _peer) = opened(sandbox, PEER_IPV4);
        let answer = answer_to(&own);
        assert_eq!(above_the_limit(&bytecode, &answer), Reason::OwnConnection);
        for second in 1..6 {
            bytecode.set_time(second * SECOND);
            bytecode.send(&answer);
            for port in 1_000..1_200 {
                assert!(!bytecode.reason(&from(PEER_IPV4.to_bits(), port, ACK)).passes());
                assert_eq!(bytecode.reason(&answer), Reason::OwnConnection, "second {second}");
            }
        }
        // Sixteen at once, sixteen per second, and those of the connection itself.
        assert!((16..=16 + 4 * 16 + 5).contains(&looked_up(&bytecode)), "{}", looked_up(&bytecode));
    });
}

/// A flood of random sources spends the budgets of every place, so the server's own address stands for all of them.
#[test]
fn packets_to_a_service_spend_no_look_ups_of_answers_to_this_host() {
    on_the_victim(|_| {
        let mut bytecode = Bytecode::with(Settings { unknown: 1, ..crate::settings() });
        bytecode.set_time(SECOND);
        bytecode.set("default", per_second(1_000, 1_000));
        let server = SocketAddr::new(Ipv4Addr::new(10, 9, 0, 77).into(), 443);
        let (_socket, local) = opening(server, None);
        let (_other, reserved) = opening(SocketAddr::new(server.ip(), 2_049), Some(700));
        assert!(local.port() > 32_767 && reserved.port() == 700);
        let other = SocketAddr::new(local.ip(), 40_000);
        let floods = [datagram(server, VICTIM), datagram(server, other), segment(server, VICTIM, ACK)];
        for frame in floods.iter().cycle().take(300) {
            let is_refused = (0..10).any(|_| bytecode.reason(frame) == Reason::OverUnknown);
            assert!(is_refused);
        }
        assert_eq!(bytecode.reason(&segment(server, local, SYN | ACK)), Reason::OwnConnection);
        // An answer to a reserved port shares the budget of services, unless own connections got packets lately.
        let reserved = segment(SocketAddr::new(server.ip(), 2_049), reserved, SYN | ACK);
        bytecode.set_time(2 * SECOND + 1);
        assert_eq!(above_the_limit(&bytecode, &reserved), Reason::OwnConnection);

        // A flood of the port itself spends its own budget.
        let before = looked_up(&bytecode);
        for port in 1..=300 {
            bytecode.send(&segment(SocketAddr::new(server.ip(), port), local, SYN | ACK));
        }
        let spent = looked_up(&bytecode) - before;
        assert!((1..=16).contains(&spent), "{spent}");
    });
}

/// The budget of the source is spent, so the program does not know whether this host has opened the connection.
fn a_packet_that_was_not_looked_up_bans_no_source(front: Front) {
    on_the_victim(|_| {
        for after in [1, 5] {
            let mut bytecode = Bytecode::with(Settings { bans: true, ..front.settings() });
            bytecode.set_time(SECOND);
            // With bans after many drops, no refusal is cached.
            let many = Ban { time: 600 * SECOND, most: 600 * SECOND, after: 60_000, reserved: 0 };
            bytecode.set("default", Policy { ban: many, ..per_second(1, 1) });
            for port in 1_000..1_100 {
                bytecode.send(&to_chosen_port(port, ACK));
            }
            let spent = looked_up(&bytecode);
            assert!((16..100).contains(&spent), "{spent}");
            let frame = to_chosen_port(2_000, ACK);
            let ban = Ban { time: 600 * SECOND, most: 600 * SECOND, after, reserved: 0 };
            bytecode.set("default", Policy { ban, ..per_second(1, 1) });
            for _ in 0..20 {
                assert_eq!(bytecode.reason(&frame), Reason::OverPackets);
            }
            assert_eq!((bans(&bytecode), looked_up(&bytecode)), (0, spent));
            // First packets need no look-up, and the next second has one for others.
            let first = to_chosen_port(2_000, SYN);
            bytecode.set_time(2 * SECOND + 1);
            above_the_limit(&bytecode, if after == 1 { &frame } else { &first });
            assert_eq!(bans(&bytecode), 1, "{after}");
        }
    });
}

/// A flood from the address of a peer costs hardly more than one from any other.
#[test]
fn refusals_of_a_peer_are_cached_and_its_answers_pass_and_are_counted() {
    on_the_victim(|sandbox| {
        let mut bytecode = Bytecode::with(crate::settings());
        bytecode.set_time(SECOND);
        bytecode.set("default", per_second(1, 1));
        let (own, _peer) = opened(sandbox, PEER_IPV4);
        let (answer, forged) = (answer_to(&own), from(PEER_IPV4.to_bits(), 1_000, ACK));
        assert_eq!(above_the_limit(&bytecode, &answer), Reason::OwnConnection);
        for _ in 0..100 {
            assert_eq!(bytecode.reason(&forged), Reason::OverPackets);
            assert_eq!(bytecode.reason(&answer), Reason::OwnConnection);
        }
        let (source, seed) = (Source::v4(PEER_IPV4.octets()), bytecode.tables.control().unwrap().seed);
        let hash = source.hash(&seed);
        let cells = bytecode.tables.front.open().unwrap();
        let cell = cells.get(&cell::index(hash, cells.len()), 0).unwrap();
        let cached = cell
            .refusals
            .iter()
            .map(ratelimit_common::cells::cell::RefusalSlot::refusal)
            .find(|refusal| refusal.is_about(hash))
            .unwrap();
        assert!(cached.is_of_a_peer());
        // The next packet that is not refused by the cell moves the count to the bucket.
        bytecode.set_time(4 * SECOND);
        assert_eq!(bytecode.reason(&answer), Reason::WithinLimit);
        assert_eq!(bytecode.reason(&forged), Reason::OverPackets);
        let bucket = bytecode.bucket(source).unwrap();
        assert_eq!((bucket.passed(), bucket.over_limit()), (103, 101));
    });
}

/// Every packet of an unknown source over the common limit is refused without a cached refusal.
#[test]
fn a_flood_of_forged_sources_has_the_budget_of_a_cpu_and_own_connections_need_none() {
    on_the_victim(|sandbox| {
        let mut bytecode = Bytecode::with(Settings { unknown: 1, ..crate::settings() });
        bytecode.set_time(SECOND);
        bytecode.set("default", per_second(1_000, 1_000));
        let (own, _peer) = opened(sandbox, PEER_IPV4);
        let answer = answer_to(&own);
        // The connection proves its peer, whose own limit holds.
        while bytecode.reason(&answer) == Reason::WithinLimit {}
        assert_eq!(bytecode.reason(&answer), Reason::OwnConnection);
        for source in 0..2_000 {
            assert_eq!(bytecode.reason(&from(0x0a0a_0000 + source, 1_000, ACK)), Reason::OverUnknown);
        }
        let (done, refused) = (looked_up(&bytecode), not_looked_up(&bytecode));
        // The thread may have run on each CPU.
        let most = 1_000 * bytecode.cpus().len() as u64;
        // Some sources share the budget of another one, whose place they share.
        assert!((1_000..=most + 1).contains(&done), "{done}");
        assert!((1_800..=2_001).contains(&(done + refused)), "{done} {refused}");
        bytecode.set_time(4 * SECOND);
        for source in 0..2_000 {
            bytecode.send(&from(0x0a0a_0000 + source, 1_000, ACK));
        }
        while bytecode.reason(&answer) == Reason::WithinLimit {}
        assert_eq!(bytecode.reason(&answer), Reason::OwnConnection);
        // First packets open connections to this host, so they need no look-up.
        let done = looked_up(&bytecode);
        for source in 0..100 {
            bytecode.send(&from(0x0b0a_0000 + source, 1_000, SYN));
        }
        assert_eq!(looked_up(&bytecode), done);
    });
}
