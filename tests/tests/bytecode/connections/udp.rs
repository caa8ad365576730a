//! UDP sockets. Only those with exactly this peer count.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use etherparse::PacketBuilder;
use ratelimit_common::reason::Reason;
use ratelimit_tests::{MAC, PEER_IPV4, PEER_IPV6, VICTIM_IPV4, VICTIM_IPV6};

use super::{above_the_limit, load, on_the_victim};
use crate::front::{Front, with_and_without_cells};

with_and_without_cells!(only_a_connected_socket_without_a_server_on_its_port_counts);

fn datagram(from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let step = match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => PacketBuilder::ethernet2(MAC, MAC).ipv4(from.octets(), to.octets(), 64),
        (IpAddr::V6(from), IpAddr::V6(to)) => PacketBuilder::ethernet2(MAC, MAC).ipv6(from.octets(), to.octets(), 64),
        _ => panic!("two families"),
    };
    let mut bytes = Vec::new();
    step.udp(from.port(), to.port()).write(&mut bytes, &[0; 20]).unwrap();
    bytes
}

fn only_a_connected_socket_without_a_server_on_its_port_counts(front: Front) {
    on_the_victim(|_| {
        for (peer, victim) in
            [(IpAddr::from(PEER_IPV4), IpAddr::from(VICTIM_IPV4)), (PEER_IPV6.into(), VICTIM_IPV6.into())]
        {
            let peer = SocketAddr::new(peer, 53);
            let is_spared =
                |from, to| above_the_limit(&load(front.settings()), &datagram(from, to)) == Reason::OwnConnection;
            let socket = UdpSocket::bind((victim, 0)).unwrap();
            let local = socket.local_addr().unwrap();
            assert!(!is_spared(peer, local), "an unconnected socket");
            socket.connect(peer).unwrap();
            assert!(is_spared(peer, local));
            assert!(!is_spared(SocketAddr::new(peer.ip(), 54), local), "another port of the peer");
            assert!(!is_spared(peer, SocketAddr::new(victim, local.port() ^ 1)), "another local port");
        }
    });
}
