//! What real clients make of the answers to packets over a limit.

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    time::Duration,
};

use aya::programs::XdpMode;
use ratelimit::dataplane::object::Settings;
use ratelimit_common::{
    limit::{DAY, Limit, Rate},
    policy::{Policy, REJECT},
};
use ratelimit_tests::{Bytecode, Sandbox, Sink, VICTIM_IPV4, VICTIM_IPV6, VICTIM_LINK};
use rustix::io::Errno;

use crate::receiver::PORT;

/// Longer than any answer takes, and not as long as a client without one would wait.
const PATIENCE: Duration = Duration::from_secs(20);

/// What stands in front of the victim: each source may send one packet a day, and is answered beyond that.
fn rejecting(sandbox: &Sandbox, mode: XdpMode) -> (Bytecode, Sink) {
    let mut bytecode = Bytecode::with_kernel_clock_and(Settings { reject: true, actions: true, ..Settings::default() });
    let rate = Rate { amount: 1, period: DAY };
    let limit = Limit { packets: Some(rate), burst: Some(1), ..Limit::default() };
    bytecode.set("default", Policy { over_limit: REJECT, ..limit.policy().unwrap() });
    bytecode.attach(sandbox, VICTIM_LINK, mode);
    (bytecode, Sink::at_the_peer(sandbox))
}

/// A host of the victim's, which would answer if a packet came through.
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

    /// A client of the peer's whose one packet has come through.
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
fn who_wants_to_connect_is_refused_and_who_sends_is_told() {
    for mode in [XdpMode::Driver, XdpMode::Skb] {
        let sandbox = Sandbox::new();
        let servers = Server::both(&sandbox);
        let (bytecode, _peer) = rejecting(&sandbox, mode);
        // What Linux makes of code 13, and of code 1 of ICMPv6.
        for (server, expected) in servers.iter().zip([Errno::HOSTUNREACH, Errno::ACCESS]) {
            let address = server.address;
            let client = server.spent(&sandbox);
            client.send(b"second").unwrap();
            let error = client.recv(&mut [0; 8]).unwrap_err();
            assert_eq!(Errno::from_io_error(&error), Some(expected), "{address}, {mode:?}");
            let connected = sandbox.peer(|| TcpStream::connect_timeout(&address, PATIENCE));
            assert_eq!(connected.unwrap_err().kind(), ErrorKind::ConnectionRefused, "{address}, {mode:?}");
        }
        assert_eq!(bytecode.cpus().iter().map(|cpu| cpu.replies_sent).sum::<u64>(), 4);
    }
}

/// The limit is reached after it was made.
#[test]
fn a_connection_is_reset() {
    let sandbox = Sandbox::new();
    let servers = Server::both(&sandbox);
    let connections = servers.each_ref().map(|server| {
        let client = sandbox.peer(|| TcpStream::connect_timeout(&server.address, PATIENCE)).unwrap();
        (client, server.tcp.accept().unwrap())
    });
    let _rejecting = rejecting(&sandbox, XdpMode::Driver);
    for (server, (mut client, _accepted)) in servers.iter().zip(connections) {
        let _spent = server.spent(&sandbox);
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.write_all(b"more").unwrap();
        let error = client.read(&mut [0; 8]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{}", server.address);
    }
}
