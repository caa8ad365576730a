//! UDP sockets. Only those with exactly this peer count.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use ratelimit_common::reason::Reason;
use ratelimit_tests::{PEER_IPV4, PEER_IPV6, VICTIM_IPV4, VICTIM_IPV6};

use super::{above_the_limit, datagram, load, on_the_victim};
use crate::front::{Front, with_and_without_cells};

with_and_without_cells!(only_a_connected_socket_without_a_server_on_its_port_counts);

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
