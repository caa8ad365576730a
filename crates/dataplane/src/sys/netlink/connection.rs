//! Whether a TCP connection is established on this host, in this thread's network namespace (sock_diag(7)).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr as Address};

use netlink_packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::{
    SockDiagMessage,
    constants::{AF_INET, AF_INET6, IPPROTO_TCP, TCP_ESTABLISHED, TCP_LISTEN},
    inet::{ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags},
};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_SOCK_DIAG};

use super::failed;
use crate::Error;

/// No cookie: the addresses and ports alone name the connection (`INET_DIAG_NOCOOKIE` in include/uapi/linux/inet_diag.h).
const NO_COOKIE: [u8; 8] = [0xff; 8];

/// Returns whether the kernel has an established connection between these two ends that this host has accepted: a
/// socket listens at the local end. IPv4 addresses that are mapped into IPv6 are the same as IPv4 addresses.
///
/// # Errors
///
/// [`Error::Netlink`] if the kernel cannot tell.
pub fn is_accepted(local: Address, remote: Address) -> Result<bool, Error> {
    let [local, remote] = [local, remote].map(canonical);
    // No connection has such an end, so the kernel answers with the listening socket.
    let nobody = match (local, remote) {
        (Address::V4(_), Address::V4(_)) => Address::new(Ipv4Addr::UNSPECIFIED.into(), 0),
        (Address::V6(_), Address::V6(_)) => Address::new(Ipv6Addr::UNSPECIFIED.into(), 0),
        _ => return Ok(false),
    };
    let is_listening =
        |found: InetResponse| found.header.state == TCP_LISTEN && found.header.socket_id.source_port == local.port();
    let is_established = asked(local, remote)?.is_some_and(|found| is_of(&found, local, remote));
    Ok(is_established && asked(local, nobody)?.is_some_and(is_listening))
}

/// Returns whether the kernel's answer is about an established connection between these ends. Without one, the kernel
/// answers with the listening socket.
fn is_of(found: &InetResponse, local: Address, remote: Address) -> bool {
    let id = &found.header.socket_id;
    let end = |address: IpAddr, port| canonical(Address::new(address, port));
    found.header.state == TCP_ESTABLISHED
        && end(id.source_address, id.source_port) == local
        && end(id.destination_address, id.destination_port) == remote
}

/// Returns the address without its zone and flow.
fn canonical(address: Address) -> Address {
    Address::new(address.ip().to_canonical(), address.port())
}

/// Returns the socket that gets a packet between these ends, which have one family. None if there is none.
fn asked(local: Address, remote: Address) -> Result<Option<InetResponse>, Error> {
    let request = InetRequest {
        family: if local.is_ipv4() { AF_INET } else { AF_INET6 },
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::empty(),
        states: StateFlags::all(),
        socket_id: SocketId {
            source_port: local.port(),
            destination_port: remote.port(),
            source_address: local.ip(),
            destination_address: remote.ip(),
            interface_id: 0,
            cookie: NO_COOKIE,
        },
    };
    let mut socket = Socket::new(NETLINK_SOCK_DIAG).map_err(failed)?;
    socket.bind_auto().map_err(failed)?;
    socket.connect(&SocketAddr::new(0, 0)).map_err(failed)?;
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST;
    let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
    message.finalize();
    let mut buffer = vec![0; message.buffer_len()];
    message.serialize(&mut buffer);
    socket.send(&buffer, 0).map_err(failed)?;
    let (datagram, _) = socket.recv_from_full().map_err(failed)?;
    match NetlinkMessage::<SockDiagMessage>::deserialize(&datagram).map_err(failed)?.payload {
        NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(found)) => Ok(Some(*found)),
        NetlinkPayload::Error(error) if error.raw_code() == -libc::ENOENT => Ok(None),
        NetlinkPayload::Error(error) => Err(failed(std::io::Error::from_raw_os_error(-error.raw_code()))),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Shutdown, TcpListener, TcpStream};

    use super::*;

    /// A listening socket and a connection to it, by the addresses to listen at and to connect to.
    ///
    /// No socket listens at 127.0.0.1: other tests need ports of it on which nothing listens.
    struct Pair {
        listener: TcpListener,
        accepted: TcpStream,
        client: TcpStream,
    }

    impl Pair {
        fn of(listen: &str, to: &str) -> Self {
            let listener = TcpListener::bind(listen).unwrap();
            let to: IpAddr = to.parse().unwrap();
            let client = TcpStream::connect((to, listener.local_addr().unwrap().port())).unwrap();
            let (accepted, _) = listener.accept().unwrap();
            Self { listener, accepted, client }
        }

        /// The ends as the server sees them.
        fn ends(&self) -> (Address, Address) {
            (self.accepted.local_addr().unwrap(), self.accepted.peer_addr().unwrap())
        }
    }

    #[test]
    fn open_connections_are_established_as_the_server_and_as_ipv4_name_them() {
        for (listen, to) in
            [("127.0.0.77:0", "127.0.0.77"), ("[::1]:0", "::1"), ("[::ffff:127.0.0.77]:0", "127.0.0.77")]
        {
            let pair = Pair::of(listen, to);
            let (local, remote) = pair.ends();
            assert!(is_accepted(local, remote).unwrap(), "{local} {remote}");
            assert!(is_accepted(canonical(local), canonical(remote)).unwrap(), "{local} {remote}");
            // The client's socket is one of this host too, but this host has not accepted it.
            assert!(!is_accepted(remote, local).unwrap());
            let Pair { listener, accepted, client } = pair;
            drop(listener);
            assert!(!is_accepted(local, remote).unwrap());
            drop((accepted, client));
        }
    }

    #[test]
    fn a_mapped_name_finds_a_connection_of_an_ipv4_socket() {
        let pair = Pair::of("127.0.0.77:0", "127.0.0.77");
        let (local, remote) = pair.ends();
        let mapped = |address: Address| match address.ip() {
            IpAddr::V4(v4) => Address::new(v4.to_ipv6_mapped().into(), address.port()),
            IpAddr::V6(_) => address,
        };
        assert!(is_accepted(mapped(local), mapped(remote)).unwrap());
        assert!(is_accepted(mapped(local), remote).unwrap());
    }

    #[test]
    fn an_invented_end_is_no_proof() {
        for (listen, to, other) in [("127.0.0.77:0", "127.0.0.77", "127.0.0.2"), ("[::1]:0", "::1", "2001:db8::1")] {
            let pair = Pair::of(listen, to);
            let (local, remote) = pair.ends();
            let other: IpAddr = other.parse().unwrap();
            // The listening socket is there, and would be found in place of a connection.
            assert!(!is_accepted(local, Address::new(other, remote.port())).unwrap());
            assert!(!is_accepted(Address::new(other, local.port()), remote).unwrap());
            let port = if remote.port() == u16::MAX { 1 } else { remote.port() + 1 };
            assert!(!is_accepted(local, Address::new(remote.ip(), port)).unwrap());
            assert!(!is_accepted(local, Address::new(remote.ip(), 0)).unwrap());
            assert_eq!(pair.listener.local_addr().unwrap().port(), local.port());
        }
        assert!(!is_accepted("127.0.0.1:1".parse().unwrap(), "[::1]:1".parse().unwrap()).unwrap());
    }

    #[test]
    fn a_connection_that_one_end_has_closed_is_no_proof() {
        let pair = Pair::of("127.0.0.77:0", "127.0.0.77");
        let (local, remote) = pair.ends();
        pair.client.shutdown(Shutdown::Write).unwrap();
        // Reads the end of the stream, after which the kernel has seen that the client closes.
        assert_eq!(std::io::Read::read(&mut &pair.accepted, &mut [0]).unwrap(), 0);
        assert!(!is_accepted(local, remote).unwrap());
    }
}
