//! Reactions of real clients to replies.

mod budget;

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    thread,
    time::Instant,
};

use ratelimit_tests::{PATIENCE, Ratelimit, Sandbox, Sink, VICTIM_IPV4, VICTIM_IPV6, VICTIM_LINK};
use rustix::io::Errno;

use crate::receiver::PORT;

/// Attaches a limit of one packet per day with replies to further packets.
fn rejecting<'a>(sandbox: &'a Sandbox, mode: &str) -> (Ratelimit<'a>, Sink) {
    let ratelimit = Ratelimit::new(sandbox);
    ratelimit.ok(&format!("attach {VICTIM_LINK} --mode {mode} --packets 1/d --burst 1 --over-limit reject"));
    (ratelimit, Sink::at_the_peer(sandbox))
}

/// A listener of the victim, which would respond if a packet passed.
struct Server {
    address: SocketAddr,
    tcp: TcpListener,
    udp: UdpSocket,
}

impl Server {
    fn both(sandbox: &Sandbox) -> [Self; 2] {
        [IpAddr::from(VICTIM_IPV4), VICTIM_IPV6.into()].map(|address| {
            let address = SocketAddr::from((address, PORT));
            let (tcp, udp) =
                sandbox.victim(|| (TcpListener::bind(address).unwrap(), UdpSocket::bind(address).unwrap()));
            udp.set_read_timeout(Some(PATIENCE)).unwrap();
            Self { address, tcp, udp }
        })
    }

    /// Returns a client of the peer that has used up its limit.
    fn spent(&self, sandbox: &Sandbox) -> UdpSocket {
        let any = if self.address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let client = sandbox.peer(|| UdpSocket::bind(SocketAddr::new(any, 0))).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.connect(self.address).unwrap();
        client.send(b"first").unwrap();
        assert_eq!(self.udp.recv(&mut [0; 8]).unwrap(), 5);
        client
    }
}

#[test]
fn tcp_connects_are_refused_and_udp_senders_get_an_error() {
    for mode in ["native", "generic"] {
        let sandbox = Sandbox::new();
        let servers = Server::both(&sandbox);
        let (ratelimit, _peer) = rejecting(&sandbox, mode);
        // Linux maps ICMP code 13 and ICMPv6 code 1 to these errors.
        for (server, expected) in servers.iter().zip([Errno::HOSTUNREACH, Errno::ACCESS]) {
            let address = server.address;
            let client = server.spent(&sandbox);
            client.send(b"second").unwrap();
            let error = client.recv(&mut [0; 8]).unwrap_err();
            assert_eq!(Errno::from_io_error(&error), Some(expected), "{address}, {mode}");
            let connected = sandbox.peer(|| TcpStream::connect_timeout(&address, PATIENCE));
            assert_eq!(connected.unwrap_err().kind(), ErrorKind::ConnectionRefused, "{address}, {mode}");
        }
        let replies = ratelimit.json("status")["replies"].clone();
        assert_eq!((&replies["sent"], &replies["unsent"]), (&4.into(), &0.into()), "{mode}");
        ratelimit.ok("detach --all");
    }
}

/// Forged packets in the client's name reach its limit after the connection is established.
#[test]
fn an_established_connection_outlives_packets_in_the_name_of_its_client() {
    let sandbox = Sandbox::new();
    let servers = Server::both(&sandbox);
    let connections = servers.each_ref().map(|server| {
        let client = sandbox.peer(|| TcpStream::connect_timeout(&server.address, PATIENCE)).unwrap();
        (client, server.tcp.accept().unwrap().0)
    });
    let (ratelimit, _peer) = rejecting(&sandbox, "native");
    for (server, (mut client, mut accepted)) in servers.iter().zip(connections) {
        let address = server.address;
        let refused = || ratelimit.json("status")["reasons"]["over-packets"]["packets"].as_u64().unwrap_or_default();
        let _spent = server.spent(&sandbox);
        let before = refused();
        client.write_all(b"more").unwrap();
        let deadline = Instant::now() + PATIENCE;
        while refused() == before {
            assert!(Instant::now() < deadline, "{address}: no segment was refused");
            thread::yield_now();
        }
        // The segment is sent again, and arrives once the source is within its limit.
        ratelimit.ok("limit set default --packets 1000/s --burst auto");
        accepted.set_read_timeout(Some(PATIENCE)).unwrap();
        accepted.write_all(b"and back").unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut read = [0; 8];
        accepted.read_exact(&mut read[..4]).unwrap_or_else(|error| panic!("{address}: {error}"));
        client.read_exact(&mut read).unwrap_or_else(|error| panic!("{address}: {error}"));
        assert_eq!(&read, b"and back", "{address}");
        ratelimit.ok("limit set default --packets 1/d --burst 1");
    }
    assert_eq!(ratelimit.json("status")["replies"]["sent"], 0);
    ratelimit.ok("detach --all");
}
