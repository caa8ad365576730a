//! Which addresses the kernel takes for those of this host, in this network namespace.

use std::{io, net::IpAddr, time::Duration};

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    address::{AddressAttribute, AddressMessage},
    route::{RouteAttribute, RouteMessage, RouteType},
};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use rustix::net::sockopt::{Timeout, set_socket_timeout};

/// How long an answer may take. The kernel gives it at once, unless somebody changes its tables.
const PATIENCE: Duration = Duration::from_millis(500);

#[cfg(test)]
thread_local! {
    /// Questions of this thread.
    pub(super) static ASKED: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// Returns whether a local program can send from an address: the kernel delivers it here, or an interface has it.
///
/// # Errors
///
/// Fails if the kernel does not tell.
pub(super) fn is_own(address: IpAddr) -> io::Result<bool> {
    #[cfg(test)]
    ASKED.set(ASKED.get() + 1);
    let address = address.to_canonical();
    Ok(is_delivered_here(address)? || interfaces_have(address)?)
}

/// Returns whether the kernel delivers packets to an address here. A route can say so of a whole prefix.
fn is_delivered_here(address: IpAddr) -> io::Result<bool> {
    let (family, bits) = match address {
        IpAddr::V4(_) => (AddressFamily::Inet, 32),
        IpAddr::V6(_) => (AddressFamily::Inet6, 128),
    };
    let mut route = RouteMessage::default();
    (route.header.address_family, route.header.destination_prefix_length) = (family, bits);
    route.attributes.push(RouteAttribute::Destination(address.into()));
    let is_local =
        |answer| matches!(answer, RouteNetlinkMessage::NewRoute(route) if route.header.kind == RouteType::Local);
    match any(RouteNetlinkMessage::GetRoute(route), 0, is_local) {
        // There is a route to each address of this host.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENETUNREACH | libc::EHOSTUNREACH)) => Ok(false),
        answer => answer,
    }
}

/// Returns whether an interface has an address. Interfaces of a VRF have routes of their own.
fn interfaces_have(address: IpAddr) -> io::Result<bool> {
    let is_this = |attribute: &AddressAttribute| match attribute {
        AddressAttribute::Address(own) | AddressAttribute::Local(own) => *own == address,
        AddressAttribute::Anycast(own) => IpAddr::V6(*own) == address,
        _ => false,
    };
    let has = |answer| matches!(answer, RouteNetlinkMessage::NewAddress(own) if own.attributes.iter().any(is_this));
    any(RouteNetlinkMessage::GetAddress(AddressMessage::default()), NLM_F_DUMP, has)
}

/// Returns whether any answer to a question is one that is looked for.
fn any(question: RouteNetlinkMessage, flags: u16, is_wanted: impl Fn(RouteNetlinkMessage) -> bool) -> io::Result<bool> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut message = NetlinkMessage::from(question);
    message.header.flags = NLM_F_REQUEST | flags;
    message.finalize();
    let mut buffer = vec![0; message.buffer_len()];
    message.serialize(&mut buffer);
    socket.send(&buffer, 0)?;
    let mut is_found = false;
    loop {
        let (datagram, _) = socket.recv_from_full()?;
        let mut rest = &*datagram;
        while !rest.is_empty() {
            let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest).map_err(io::Error::other)?;
            rest = rest.get((answer.header.length as usize).max(1).next_multiple_of(4)..).unwrap_or_default();
            match answer.payload {
                NetlinkPayload::InnerMessage(answer) => is_found |= is_wanted(answer),
                NetlinkPayload::Error(error) if error.code.is_some() => return Err(error.to_io()),
                NetlinkPayload::Done(done) if done.code < 0 => return Err(io::Error::from_raw_os_error(-done.code)),
                NetlinkPayload::Done(_) | NetlinkPayload::Error(_) => return Ok(is_found),
                _ => {}
            }
        }
        // A single answer has no end.
        if flags & NLM_F_DUMP == 0 {
            return Ok(is_found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_host_are_told_from_others() {
        for (address, expected) in [
            ("127.0.0.1", true),
            ("127.9.9.9", true),
            ("::ffff:127.0.0.1", true),
            ("::1", true),
            ("192.0.2.1", false),
            ("2001:db8::1", false),
        ] {
            assert_eq!(is_own(address.parse().unwrap()).unwrap(), expected, "{address}");
        }
    }
}
