//! Established connections as proof of an address, where the rate of unknown sources is spent.

use std::{
    fs,
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
    time::Instant,
};

use ratelimit_common::{
    cells::known_source::{KEPT, LONGEST},
    identity::source::Source,
    reason::Reason,
};
use ratelimit_dataplane::{program::loader::Settings, sys::link_type::FirstHeader};
use ratelimit_tests::{
    Bytecode, Order, PATIENCE, PEER_IPV4, PEER_IPV6, PEER_LINK, Sandbox, Segment, Sources, VICTIM_IPV4, VICTIM_IPV6,
    framed, send_raw,
};

use super::{ACK, SYN, datagram, on_the_victim, segment};
use crate::cells::{
    stay_on_one_cpu,
    unknown_sources::{STEP, all, flood, frame, is_known, limited, limited_with, send_for, two_in_a_cell},
};

/// Returns a connection that the victim has accepted: the peer's end, the victim's end, and the listener.
fn accepted(sandbox: &Sandbox, local: SocketAddr) -> (TcpStream, TcpStream, TcpListener) {
    let listener = TcpListener::bind(local).unwrap();
    let local = listener.local_addr().unwrap();
    let client = sandbox.peer(|| TcpStream::connect(local)).unwrap();
    let server = listener.accept().unwrap().0;
    (client, server, listener)
}

/// Spends the rate of unknown sources.
fn spend(bytecode: &Bytecode) {
    for number in 0..2_000_u16 {
        let [high, low] = number.to_be_bytes();
        bytecode.send(&frame([10, 78, high, low]));
    }
}

fn counted(bytecode: &Bytecode) -> [u64; 3] {
    bytecode.cpus().iter().fold([0; 3], |[a, b, c], cpu| {
        [a + cpu.proven_by_connection, b + cpu.proofs_looked_up, c + cpu.proofs_not_looked_up]
    })
}

#[test]
fn a_packet_of_an_established_connection_passes_and_its_source_is_known() {
    on_the_victim(|sandbox| {
        for (frags, local) in [(true, VICTIM_IPV4.into()), (false, VICTIM_IPV4.into()), (true, VICTIM_IPV6.into())] {
            let (client, server, _listener) = accepted(sandbox, SocketAddr::new(local, 0));
            let (peer, local) = (client.local_addr().unwrap(), server.local_addr().unwrap());
            let settings =
                Settings { frags, raw_ip: true, own: 0, unknown: 1_000, cells: 1 << 10, ..crate::settings() };
            let bytecode = limited_with(settings);
            spend(&bytecode);
            // Other packets of the same source prove nothing: another port, a first SYN, UDP.
            let mut other = peer;
            other.set_port(peer.port() ^ 1);
            for frame in [segment(other, local, ACK), segment(peer, local, SYN), datagram(peer, local)] {
                assert_eq!(bytecode.reason(&frame), Reason::OverUnknown);
            }
            assert_eq!(counted(&bytecode), [0, 1, 0], "only the packet with another port was looked up");
            let frame = segment(peer, local, ACK);
            assert_eq!(bytecode.reason(&framed(&frame[14..], &[0x88a8, 0x8100])), Reason::WithinLimit);
            assert_eq!(counted(&bytecode), [1, 2, 0]);
            // The source is known: everything that it sends passes within its own limit, without a look-up.
            for frame in [segment(peer, local, ACK), datagram(peer, local), segment(other, local, SYN)] {
                assert_eq!(bytecode.reason(&frame), Reason::WithinLimit);
            }
            bytecode.repeat(&frame, 1_100);
            assert_eq!(bytecode.reason(&frame), Reason::OverPackets);
            assert_eq!(counted(&bytecode), [1, 2, 0]);

            let bytecode = limited_with(settings);
            spend(&bytecode);
            let packet = &frame[14..];
            let raw = bytecode.reason_of(packet, || bytecode.runner(FirstHeader::Ip).repeat(packet, 1));
            assert_eq!((raw, counted(&bytecode)), (Reason::WithinLimit, [1, 1, 0]));
        }
    });
}

#[test]
fn a_connection_that_waits_for_the_peer_and_a_listener_prove_nothing() {
    on_the_victim(|sandbox| {
        let listener = TcpListener::bind((VICTIM_IPV4, 0)).unwrap();
        let bytecode = limited(1_000, 1 << 10);
        spend(&bytecode);
        let peer = SocketAddr::new(PEER_IPV4.into(), 9);
        assert_eq!(bytecode.reason(&segment(peer, listener.local_addr().unwrap(), ACK)), Reason::OverUnknown);
        // The peer does not have this address, so the victim waits for an answer. It spares one, as before.
        let silent = SocketAddr::new("10.9.0.77".parse().unwrap(), 9);
        let (_socket, local) = super::opening(silent, None);
        assert_eq!(bytecode.reason(&segment(silent, local, SYN | ACK)), Reason::OwnConnection);
        assert_eq!(counted(&bytecode)[0], 0);
        // A connection that the victim has closed first still proves its peer.
        let (client, server, _listener) = accepted(sandbox, SocketAddr::new(VICTIM_IPV6.into(), 0));
        let (peer, local) = (client.local_addr().unwrap(), server.local_addr().unwrap());
        drop(server);
        assert_eq!(bytecode.reason(&segment(peer, local, ACK)), Reason::WithinLimit);
        assert_eq!(peer.ip(), PEER_IPV6);
    });
}

/// The kernel has answered the SYN, and waits for an acknowledgement that a forger never sends.
#[test]
fn a_connection_that_is_half_open_proves_nothing() {
    on_the_victim(|sandbox| {
        let listener = TcpListener::bind((VICTIM_IPV4, 0)).unwrap();
        let local = listener.local_addr().unwrap();
        let forged = SocketAddr::from(([192, 0, 2, 7], 5_000));
        sandbox.peer(|| send_raw(PEER_LINK, &Segment::syn(forged, local).frame(&[]), 1));
        let is_half_open = || {
            let sockets = fs::read_to_string("/proc/thread-self/net/tcp").unwrap();
            sockets.lines().any(|line| line.split_whitespace().nth(3) == Some("03"))
        };
        let deadline = Instant::now() + PATIENCE;
        while !is_half_open() {
            assert!(Instant::now() < deadline, "the victim has no such connection");
            thread::yield_now();
        }
        for prove_tcp in [false, true] {
            let settings = Settings { own: 0, unknown: 1_000, cells: 1 << 10, prove_tcp, ..crate::settings() };
            let bytecode = limited_with(settings);
            spend(&bytecode);
            assert_eq!(bytecode.reason(&segment(forged, local, ACK)), Reason::OverUnknown);
            assert_eq!(counted(&bytecode), [0, 1, 0]);
        }
        assert!(is_half_open());
    });
}

/// The budget is one of a CPU, so forged packets can spend it. Then the rate of unknown sources holds.
#[test]
fn look_ups_have_a_budget() {
    on_the_victim(|sandbox| {
        stay_on_one_cpu();
        let mut bytecode = limited(1_000, 1 << 10);
        let (client, server, _listener) = accepted(sandbox, SocketAddr::new(VICTIM_IPV4.into(), 0));
        let (peer, local) = (client.local_addr().unwrap(), server.local_addr().unwrap());
        spend(&bytecode);
        let forged = segment(SocketAddr::from(([10, 77, 0, 1], 9)), local, ACK);
        bytecode.repeat(&forged, 20_000);
        let [_, done, not_done] = counted(&bytecode);
        assert!((4_999..=5_001).contains(&done) && done + not_done == 20_000, "{done} {not_done}");
        assert_eq!(bytecode.reason(&segment(peer, local, ACK)), Reason::OverUnknown);
        let now = bytecode.tables.control().unwrap().clock;
        bytecode.set_time(now + 1_000_000);
        assert_eq!(bytecode.reason(&segment(peer, local, ACK)), Reason::WithinLimit);
        assert_eq!(counted(&bytecode)[0], 1);
    });
}

#[test]
fn proof_goes_before_habit_and_lasts_ten_minutes() {
    on_the_victim(|sandbox| {
        let bytecode = limited(1_000, 2);
        let mut clock = bytecode.clock();
        let habits = two_in_a_cell(&bytecode, 4);
        send_for(&bytecode, &mut clock, &habits, LONGEST);
        assert!(habits.iter().all(|address| is_known(&bytecode, *address)));
        let (client, server, _listener) = accepted(sandbox, SocketAddr::new(VICTIM_IPV4.into(), 0));
        let (peer, local) = (client.local_addr().unwrap(), server.local_addr().unwrap());
        spend(&bytecode);
        assert_eq!(bytecode.reason(&segment(peer, local, ACK)), Reason::WithinLimit);
        let places = all(&bytecode);
        let [proven] = places.iter().filter(|known| known.is_proven()).collect::<Vec<_>>()[..] else {
            panic!("{places:?}")
        };
        let seed = bytecode.tables.control().unwrap().seed;
        let hash = Source::v4(PEER_IPV4.octets()).hash(&seed);
        assert!(proven.is(hash));
        assert_eq!(habits.iter().filter(|address| is_known(&bytecode, **address)).count(), 3);

        // Neither habit nor a flood below the rate takes its place.
        let mut walker = flood(&bytecode);
        for _ in 0..KEPT / 13 {
            clock.advance(13 * STEP);
            for address in &habits {
                bytecode.send(&frame(*address));
            }
            walker.run(Sources::Endless, Order::InTurn, 100);
        }
        spend(&bytecode);
        assert_eq!(bytecode.reason(&frame(PEER_IPV4.octets())), Reason::WithinLimit);
        clock.advance((KEPT + 1) * STEP);
        spend(&bytecode);
        assert_eq!(bytecode.reason(&frame(PEER_IPV4.octets())), Reason::OverUnknown);
    });
}
