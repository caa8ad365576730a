//! Who has TCP connections to a port of this host, in this thread's network namespace (sock_diag(7)).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::{
    SockDiagMessage,
    constants::{AF_INET, AF_INET6, IPPROTO_TCP},
    inet::{ExtensionFlags, InetRequest, SocketId, StateFlags},
};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_SOCK_DIAG};

use super::failed;
use crate::Error;

/// The most connections that an answer may have.
const MOST: usize = 16_384;

/// Returns the addresses of the other ends of all established connections to a local port, without duplicates.
///
/// # Errors
///
/// [`Error::Netlink`] if the kernel cannot tell, or if there are too many.
pub fn of(port: u16) -> Result<Vec<IpAddr>, Error> {
    let mut peers = Vec::new();
    for (family, any) in [(AF_INET, Ipv4Addr::UNSPECIFIED.into()), (AF_INET6, Ipv6Addr::UNSPECIFIED.into())] {
        let socket_id = SocketId {
            // The kernel leaves out sockets with other ports.
            source_port: port,
            destination_port: 0,
            source_address: any,
            destination_address: any,
            interface_id: 0,
            cookie: [0; 8],
        };
        add(
            InetRequest {
                family,
                protocol: IPPROTO_TCP,
                extensions: ExtensionFlags::empty(),
                states: StateFlags::ESTABLISHED,
                socket_id,
            },
            &mut peers,
        )?;
    }
    peers.sort_unstable();
    peers.dedup();
    Ok(peers)
}

fn add(request: InetRequest, peers: &mut Vec<IpAddr>) -> Result<(), Error> {
    let mut socket = Socket::new(NETLINK_SOCK_DIAG).map_err(failed)?;
    socket.bind_auto().map_err(failed)?;
    socket.connect(&SocketAddr::new(0, 0)).map_err(failed)?;
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
    message.finalize();
    let mut buffer = vec![0; message.buffer_len()];
    message.serialize(&mut buffer);
    socket.send(&buffer, 0).map_err(failed)?;
    loop {
        let (datagram, _) = socket.recv_from_full().map_err(failed)?;
        let mut rest = &datagram[..];
        while !rest.is_empty() {
            let answer = NetlinkMessage::<SockDiagMessage>::deserialize(rest).map_err(failed)?;
            let length = (answer.header.length as usize).max(1).next_multiple_of(4);
            rest = rest.get(length..).unwrap_or_default();
            match answer.payload {
                NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(_)) if peers.len() >= MOST => {
                    return Err(Error::Netlink(format!("more than {MOST} connections to the port are open")));
                }
                NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(found)) => {
                    peers.push(found.header.socket_id.destination_address.to_canonical());
                }
                NetlinkPayload::Error(error) if error.code.is_some() => {
                    return Err(failed(std::io::Error::from_raw_os_error(-error.raw_code())));
                }
                NetlinkPayload::Done(_) | NetlinkPayload::Error(_) => return Ok(()),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_other_ends_of_connections_to_the_port_are_found_and_no_others() {
        for listen in ["127.0.0.78:0", "[::1]:0", "[::ffff:127.0.0.78]:0"] {
            let listener = TcpListener::bind(listen).unwrap();
            let port = listener.local_addr().unwrap().port();
            assert!(of(port).unwrap().is_empty());
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let own = client.local_addr().unwrap();
            assert_eq!(of(port).unwrap(), [own.ip().to_canonical()]);
        }
    }
}
