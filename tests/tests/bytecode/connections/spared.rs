//! Which TCP packets are spared.

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};

use ratelimit_common::{
    cells::learned_rate::{DAY, LEAST, LearnedRate},
    limits::{
        limit::SECOND,
        policy::{Policy, SHADOW},
    },
    reason::Reason,
};
use ratelimit_dataplane::{
    program::loader::{LEARNED, Settings},
    sys::link_type::FirstHeader,
};
use ratelimit_tests::{Bytecode, PEER_IPV4, PEER_IPV6, VICTIM_IPV4, Wrap, framed, per_second};

use super::{
    ACK, SYN, above_the_limit, answer_to, bans, datagram, forged, load, looked_up, on_the_victim, opened, opening,
    segment,
};
use crate::{
    front::{Front, with_and_without_cells},
    rules::lists::deny,
};

with_and_without_cells!(
    packets_of_an_own_connection_pass_above_the_limit_and_cause_no_ban,
    answers_to_a_first_packet_pass_and_accepted_connections_do_not,
    a_banned_source_still_answers_and_a_denied_one_does_not,
    a_listed_source_still_answers,
    own_connections_have_a_rate_of_their_own,
    without_the_setting_own_connections_are_limited
);

/// Tags, both families, both kinds of drivers, and interfaces without Ethernet headers.
fn packets_of_an_own_connection_pass_above_the_limit_and_cause_no_ban(front: Front) {
    on_the_victim(|sandbox| {
        for frags in [true, false] {
            for (own, _peer) in [opened(sandbox, PEER_IPV4), opened(sandbox, PEER_IPV6)] {
                let bytecode = load(Settings { frags, raw_ip: true, ..front.settings() });
                let frame = answer_to(&own);
                assert_eq!(above_the_limit(&bytecode, &frame), Reason::OwnConnection);
                for tags in [&[0x8100][..], &[0x88a8, 0x8100]] {
                    assert_eq!(bytecode.reason(&framed(&frame[14..], tags)), Reason::OwnConnection, "{tags:x?}");
                }
                let packet = &frame[14..];
                let raw = bytecode.reason_of(packet, || bytecode.runner(FirstHeader::Ip).repeat(packet, 1));
                assert_eq!(raw, Reason::OwnConnection);
                assert_eq!((bans(&bytecode), looked_up(&bytecode)), (0, 1));
                // Forged packets are refused, and do not shut the connection out. Those of the connection fill the limit
                // too, so they ban no source.
                for _ in 0..100 {
                    assert!(!bytecode.reason(&forged(&own)).passes());
                    assert_eq!(bytecode.reason(&frame), Reason::OwnConnection);
                }
                assert_eq!(bans(&bytecode), 0);
            }
        }
    });
}

/// Answers behind extension headers pass too. Later fragments have no ports.
#[test]
fn extension_headers_hide_no_own_connection_and_later_fragments_are_refused() {
    on_the_victim(|sandbox| {
        let (own, _peer) = opened(sandbox, PEER_IPV6);
        let bytecode = load(crate::settings());
        let frame = answer_to(&own);
        assert_eq!(above_the_limit(&bytecode, &frame), Reason::OwnConnection);
        let segment = || Wrap::new(6, &frame[14 + 40..]);
        for kind in [0, 43, 60] {
            let behind = framed(&segment().behind(kind).behind(kind).v6(PEER_IPV6, 64), &[]);
            assert_eq!(bytecode.reason(&behind), Reason::OwnConnection, "{kind}");
        }
        let first = framed(&segment().fragment(0, true).v6(PEER_IPV6, 64), &[]);
        assert_eq!(bytecode.reason(&first), Reason::OwnConnection);
        let later = framed(&segment().fragment(1, false).v6(PEER_IPV6, 64), &[]);
        assert!(!bytecode.reason(&later).passes());
        let (own, _peer) = opened(sandbox, PEER_IPV4);
        let frame = answer_to(&own);
        assert_eq!(above_the_limit(&bytecode, &frame), Reason::OwnConnection);
        let with_options = Wrap::new(6, &frame[14 + 20..]).v4(PEER_IPV4, |header| header.options = [1; 8].into());
        assert_eq!(bytecode.reason(&framed(&with_options, &[])), Reason::OwnConnection);
    });
}

fn answers_to_a_first_packet_pass_and_accepted_connections_do_not(front: Front) {
    on_the_victim(|sandbox| {
        // The peer does not have the silent addresses.
        for (victim, silent) in [("10.9.0.1", "10.9.0.77"), ("fd00:9::1", "fd00:9::77")] {
            let [victim, silent]: [IpAddr; 2] = [victim, silent].map(|address| address.parse().unwrap());
            let bytecode = load(front.settings());
            let silent = SocketAddr::new(silent, 9);
            let (_socket, local) = opening(silent, None);
            assert_eq!(above_the_limit(&bytecode, &segment(silent, local, SYN | ACK)), Reason::OwnConnection);

            let bytecode = load(front.settings());
            let listener = TcpListener::bind((victim, 0)).unwrap();
            let local = listener.local_addr().unwrap();
            let client = sandbox.peer(|| TcpStream::connect(local)).unwrap();
            let _accepted = listener.accept().unwrap();
            assert!(!above_the_limit(&bytecode, &segment(client.local_addr().unwrap(), local, ACK)).passes());
            assert_eq!((bans(&bytecode), looked_up(&bytecode)), (1, 1));
        }
    });
}

fn a_banned_source_still_answers_and_a_denied_one_does_not(front: Front) {
    on_the_victim(|sandbox| {
        let mut bytecode = load(front.settings());
        let (own, _peer) = opened(sandbox, PEER_IPV4);
        let (answer, forged) = (answer_to(&own), forged(&own));
        above_the_limit(&bytecode, &forged);
        assert_eq!(bans(&bytecode), 1);
        // A cached refusal lasts a second.
        bytecode.set_time(2 * SECOND + 1);
        assert_eq!(bytecode.reason(&answer), Reason::OwnConnection);
        assert_eq!(bytecode.reason(&forged), Reason::Banned);
        assert_eq!(bytecode.reason(&answer), Reason::OwnConnection);
        bytecode.set(&PEER_IPV4.to_string(), Policy::DENIED);
        for _ in 0..3 {
            assert_eq!(bytecode.reason(&answer), Reason::Denied);
        }
    });
}

fn a_listed_source_still_answers(front: Front) {
    on_the_victim(|sandbox| {
        let mut bytecode = load(Settings { lists: true, ..front.settings() });
        let (own, _peer) = opened(sandbox, PEER_IPV4);
        let (answer, forged) = (answer_to(&own), forged(&own));
        deny(&mut bytecode, "feed", &[&PEER_IPV4.to_string()]);
        assert_eq!(bytecode.reason(&forged), Reason::Listed);
        // A cached refusal lasts a second.
        bytecode.set_time(2 * SECOND + 1);
        for _ in 0..3 {
            assert_eq!(bytecode.reason(&answer), Reason::OwnConnection);
            assert_eq!(bytecode.reason(&forged), Reason::Listed);
        }
        assert_eq!(bans(&bytecode), 0);
    });
}

fn own_connections_have_a_rate_of_their_own(front: Front) {
    const RATE: u64 = 100;
    on_the_victim(|sandbox| {
        let mut bytecode = load(Settings { own: RATE, ..front.settings() });
        let (own, _peer) = opened(sandbox, PEER_IPV4);
        let answer = answer_to(&own);
        let mut spared = 0;
        for step in 0..500 {
            bytecode.set_time(SECOND + step * SECOND / 100);
            for _ in 0..3 {
                match bytecode.reason(&answer) {
                    Reason::OwnConnection => spared += 1,
                    Reason::WithinLimit | Reason::OverPackets => {}
                    other => panic!("{other:?}"),
                }
            }
        }
        // Five seconds, and the burst of a tenth of a second.
        assert!((5 * RATE..=5 * RATE + RATE / 10 + 1).contains(&spared), "{spared}");
        assert_eq!(bans(&bytecode), 0);
    });
}

fn without_the_setting_own_connections_are_limited(front: Front) {
    on_the_victim(|sandbox| {
        let bytecode = load(Settings { own: 0, ..front.settings() });
        let (own, _peer) = opened(sandbox, PEER_IPV4);
        assert_eq!(above_the_limit(&bytecode, &answer_to(&own)), Reason::OverPackets);
        assert_eq!((bans(&bytecode), looked_up(&bytecode)), (1, 0));
    });
}

/// The packet would pass without shadow mode, so it is not counted as one that would be dropped.
#[test]
fn in_shadow_own_connections_are_counted_as_such() {
    on_the_victim(|sandbox| {
        let (own, _peer) = opened(sandbox, PEER_IPV4);
        for settings in
            [Settings { shadow: true, ..crate::settings() }, Settings { actions: true, ..crate::settings() }]
        {
            let mut bytecode = Bytecode::with(settings);
            bytecode.set_time(SECOND);
            bytecode.set("default", Policy { over_limit: SHADOW, ..per_second(1, 1) });
            assert_eq!(above_the_limit(&bytecode, &answer_to(&own)), Reason::OwnConnection);
        }
    });
}

#[test]
fn the_end_of_an_own_connection_passes_and_a_first_packet_does_not() {
    on_the_victim(|sandbox| {
        let mut bytecode = load(crate::settings());
        let (own, peer) = opened(sandbox, PEER_IPV4);
        let (from, to) = (own.peer_addr().unwrap(), own.local_addr().unwrap());
        let answer = answer_to(&own);
        assert_eq!(above_the_limit(&bytecode, &answer), Reason::OwnConnection);
        own.shutdown(std::net::Shutdown::Both).unwrap();
        bytecode.set_time(4 * SECOND);
        assert_eq!(above_the_limit(&bytecode, &answer), Reason::OwnConnection);
        drop((own, peer));
        bytecode.set_time(8 * SECOND);
        assert!(!above_the_limit(&bytecode, &segment(from, to, SYN)).passes());
    });
}

/// A server that answers this host can be unknown. What passes above the rate of unknown sources does not keep the
/// program from learning the rate.
#[test]
fn only_packets_that_are_dropped_count_as_refusals_of_a_learned_rate() {
    on_the_victim(|_| {
        let mut bytecode = Bytecode::with(Settings { unknown: LEARNED, ..crate::settings() });
        bytecode.set_time(SECOND);
        bytecode.set("default", per_second(1_000, 1_000));
        let learned = LearnedRate { per_minute: LEAST, begun: SECOND, calm: DAY, ..LearnedRate::default() };
        bytecode.tables.learned_rate.open_mut().unwrap().set(0, learned, 0).unwrap();
        let refused = |bytecode: &Bytecode| bytecode.tables.learned_rate.open().unwrap().get(&0, 0).unwrap().refused;
        // A TCP connection would prove the source.
        let own = UdpSocket::bind((VICTIM_IPV4, 0)).unwrap();
        own.connect((PEER_IPV4, 53)).unwrap();
        let [answer, other] = [53, 54].map(|port| datagram((PEER_IPV4, port).into(), own.local_addr().unwrap()));
        while bytecode.reason(&answer) == Reason::WithinLimit {}
        for _ in 0..300 {
            assert_eq!(bytecode.reason(&answer), Reason::OwnConnection);
        }
        assert_eq!(refused(&bytecode), 0);
        for _ in 0..300 {
            assert_eq!(bytecode.reason(&other), Reason::OverUnknown);
        }
        assert_eq!(refused(&bytecode), 300);
    });
}
