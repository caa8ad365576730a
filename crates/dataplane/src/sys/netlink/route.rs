//! The way of packets to an address.

use std::net::IpAddr;

use netlink_packet_core::NLM_F_ACK;
use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    route::{RouteAttribute, RouteMessage},
};

use super::exchange;

/// Returns the index of the interface through which packets to this address leave. None if there is no way to it.
#[must_use]
pub fn interface_to(address: IpAddr) -> Option<u32> {
    let mut route = RouteMessage::default();
    (route.header.address_family, route.header.destination_prefix_length) = match address {
        IpAddr::V4(_) => (AddressFamily::Inet, 32),
        IpAddr::V6(_) => (AddressFamily::Inet6, 128),
    };
    route.attributes.push(RouteAttribute::Destination(address.into()));
    let answers = exchange(RouteNetlinkMessage::GetRoute(route), NLM_F_ACK).ok()?;
    let interface =
        |attribute: &RouteAttribute| if let RouteAttribute::Oif(index) = attribute { Some(*index) } else { None };
    answers.routes.iter().flat_map(|route| &route.attributes).find_map(interface)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_this_host_is_the_loopback_interface() {
        for address in ["127.0.0.1", "::1"] {
            assert_eq!(interface_to(address.parse().unwrap()), Some(1), "{address}");
        }
    }
}
