//! The addresses of this host and of its gateways, in this thread's network namespace.

use std::net::IpAddr;

use netlink_packet_core::NLM_F_DUMP;
use netlink_packet_route::{
    RouteNetlinkMessage,
    address::{AddressAttribute, AddressMessage},
    route::{RouteAddress, RouteAttribute, RouteMessage, RouteVia},
};

use super::{TRIES, exchange};
use crate::Error;

/// Returns the addresses of this host on all interfaces.
///
/// # Errors
///
/// [`Error::Netlink`] if the kernel does not answer, or the addresses change too fast.
pub fn own() -> Result<Vec<IpAddr>, Error> {
    let request = RouteNetlinkMessage::GetAddress(AddressMessage::default());
    let is_own = |attribute: AddressAttribute| match attribute {
        AddressAttribute::Address(address) | AddressAttribute::Local(address) => Some(address),
        AddressAttribute::Anycast(address) => Some(address.into()),
        _ => None,
    };
    listed(&request, |answers| {
        answers.addresses.into_iter().flat_map(|address| address.attributes).filter_map(is_own).collect()
    })
}

/// Returns the gateways of all routes in all tables.
///
/// # Errors
///
/// [`Error::Netlink`] if the kernel does not answer, or the routes change too fast or are too many.
pub fn gateways() -> Result<Vec<IpAddr>, Error> {
    let request = RouteNetlinkMessage::GetRoute(RouteMessage::default());
    listed(&request, |answers| {
        let mut gateways = Vec::new();
        answers.routes.iter().for_each(|route| add(&route.attributes, &mut gateways));
        gateways.sort_unstable();
        gateways.dedup();
        gateways
    })
}

fn listed(request: &RouteNetlinkMessage, read: impl Fn(super::Answers) -> Vec<IpAddr>) -> Result<Vec<IpAddr>, Error> {
    for _ in 0..TRIES {
        let answers = exchange(request.clone(), NLM_F_DUMP)?;
        if !answers.is_interrupted {
            return Ok(read(answers));
        }
    }
    Err(Error::Netlink("addresses and routes change too fast to be listed: try again later".to_owned()))
}

/// Adds the gateways among the attributes of a route, or of one of its ways.
fn add(attributes: &[RouteAttribute], gateways: &mut Vec<IpAddr>) {
    for attribute in attributes {
        match attribute {
            RouteAttribute::Gateway(RouteAddress::Inet(address)) | RouteAttribute::Via(RouteVia::Inet(address)) => {
                gateways.push((*address).into());
            }
            RouteAttribute::Gateway(RouteAddress::Inet6(address)) | RouteAttribute::Via(RouteVia::Inet6(address)) => {
                gateways.push((*address).into());
            }
            RouteAttribute::MultiPath(ways) => {
                for way in ways {
                    // A way has no further ways.
                    let own = way.attributes.iter().filter(|inner| !matches!(inner, RouteAttribute::MultiPath(_)));
                    add(&own.cloned().collect::<Vec<_>>(), gateways);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{net::Ipv4Addr, process::Command};

    use netlink_packet_route::route::RouteNextHop;

    use super::*;

    #[test]
    fn the_addresses_of_this_host_are_those_that_the_system_lists() {
        let own = own().unwrap();
        assert!(own.contains(&IpAddr::V4(Ipv4Addr::LOCALHOST)));
        let listed = Command::new("hostname").arg("-I").output().unwrap();
        for address in String::from_utf8(listed.stdout).unwrap().split_whitespace() {
            assert!(own.contains(&address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn the_gateways_of_this_host_are_those_of_its_main_table() {
        let gateways = gateways().unwrap();
        let routes = std::fs::read_to_string("/proc/net/route").unwrap();
        for route in routes.lines().skip(1) {
            let gateway = u32::from_str_radix(route.split_whitespace().nth(2).unwrap(), 16).unwrap();
            let gateway = Ipv4Addr::from(gateway.to_ne_bytes());
            assert!(gateway.is_unspecified() || gateways.contains(&gateway.into()), "{gateway}");
        }
    }

    #[test]
    fn every_way_of_a_route_has_its_gateway() {
        let via = |last| RouteAttribute::Gateway(RouteAddress::Inet(Ipv4Addr::new(192, 0, 2, last)));
        let mut way = RouteNextHop::default();
        way.attributes = vec![via(2), RouteAttribute::Via(RouteVia::Inet6("2001:db8::1".parse().unwrap()))];
        let mut gateways = Vec::new();
        add(&[via(1), RouteAttribute::MultiPath(vec![way])], &mut gateways);
        let shown: Vec<_> = gateways.iter().map(IpAddr::to_string).collect();
        assert_eq!(shown, ["192.0.2.1", "192.0.2.2", "2001:db8::1"]);
    }
}
