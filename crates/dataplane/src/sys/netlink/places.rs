//! The addresses of this host, its gateways, and the networks of its interfaces, in this thread's network namespace.

use std::net::IpAddr;

use netlink_packet_core::NLM_F_DUMP;
use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    address::{AddressAttribute, AddressMessage},
    route::{RouteAddress, RouteAttribute, RouteMessage, RouteProtocol, RouteType, RouteVia},
};
use ratelimit_base::text::prefix::Prefix;
use ratelimit_common::identity::source::Source;

use super::{TRIES, exchange_by};
use crate::Error;

/// What the addresses of interfaces tell.
#[derive(Debug, Default)]
pub struct Addresses {
    /// The addresses of this host.
    pub own: Vec<IpAddr>,
    /// The networks of its interfaces. One end of a tunnel has the other end as its network.
    pub networks: Vec<Prefix>,
}

/// What the routes tell.
#[derive(Debug, Default)]
pub struct Routes {
    /// The gateways of all unicast routes in all tables. Exceptions that ICMP messages cause are none.
    pub gateways: Vec<IpAddr>,
    /// Networks that the kernel has learned to be on a link, also from a router's message. A route that an operator set
    /// says nothing of that kind: it can lead everything into a tunnel.
    pub networks: Vec<Prefix>,
}

/// Returns what the addresses of all interfaces tell.
///
/// # Errors
///
/// [`Error::Netlink`] if the kernel does not answer, or the addresses change too fast.
pub fn addresses() -> Result<Addresses, Error> {
    let request = RouteNetlinkMessage::GetAddress(AddressMessage::default());
    listed(&request, |answers| {
        let mut found = Addresses::default();
        answers.addresses.iter().for_each(|address| add_address(address, &mut found));
        found
    })
}

/// Returns what the routes tell.
///
/// # Errors
///
/// [`Error::Netlink`] if the kernel does not answer, or the routes change too fast or are too many.
pub fn routes() -> Result<Routes, Error> {
    let mut found = Routes::default();
    for family in [AddressFamily::Inet, AddressFamily::Inet6] {
        let mut wanted = RouteMessage::default();
        (wanted.header.address_family, wanted.header.kind) = (family, RouteType::Unicast);
        listed(&RouteNetlinkMessage::GetRoute(wanted), |answers| {
            answers.routes.iter().for_each(|route| add(&route.attributes, &mut found.gateways));
            found.networks.extend(answers.routes.iter().filter_map(on_link));
        })?;
    }
    found.gateways.sort_unstable();
    found.gateways.dedup();
    Ok(found)
}

/// Makes a request that the kernel checks strictly. Its list of routes then has only those that were asked for.
fn listed<T>(request: &RouteNetlinkMessage, read: impl FnOnce(super::Answers) -> T) -> Result<T, Error> {
    for _ in 0..TRIES {
        let answers = exchange_by(request.clone(), NLM_F_DUMP, true)?;
        if !answers.is_interrupted {
            return Ok(read(answers));
        }
    }
    Err(Error::Netlink("addresses and routes change too fast to be listed: try again later".to_owned()))
}

/// Adds one address of an interface, and its network.
fn add_address(message: &AddressMessage, found: &mut Addresses) {
    let (mut local, mut address) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            AddressAttribute::Local(own) => local = Some(*own),
            AddressAttribute::Address(other) => address = Some(*other),
            AddressAttribute::Anycast(own) => found.own.push((*own).into()),
            _ => {}
        }
    }
    found.own.extend(local.or(address));
    found.networks.extend(address.map(|address| network(address, message.header.prefix_len)));
}

/// Returns the network of a route without a gateway that the kernel has set itself, or has learned from a router.
fn on_link(route: &RouteMessage) -> Option<Prefix> {
    let is_learned = matches!(route.header.protocol, RouteProtocol::Kernel | RouteProtocol::Ra);
    let mut destination = None;
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::Destination(RouteAddress::Inet(address)) => destination = Some((*address).into()),
            RouteAttribute::Destination(RouteAddress::Inet6(address)) => destination = Some((*address).into()),
            RouteAttribute::Gateway(_) | RouteAttribute::Via(_) | RouteAttribute::MultiPath(_) => return None,
            _ => {}
        }
    }
    let is_link = is_learned && route.header.kind == RouteType::Unicast;
    is_link.then_some(destination).flatten().map(|address| network(address, route.header.destination_prefix_length))
}

fn network(address: IpAddr, bits: u8) -> Prefix {
    match address {
        IpAddr::V4(v4) => Prefix::of(&Source::v4(v4.octets()).shortened(bits.min(32)), bits.min(32)),
        IpAddr::V6(v6) => Prefix::of(&Source::v6(v6.octets(), bits.min(128)), bits.min(128)),
    }
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
        let own = addresses().unwrap().own;
        assert!(own.contains(&IpAddr::V4(Ipv4Addr::LOCALHOST)));
        let listed = Command::new("hostname").arg("-I").output().unwrap();
        for address in String::from_utf8(listed.stdout).unwrap().split_whitespace() {
            assert!(own.contains(&address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn the_gateways_of_this_host_are_those_of_its_main_table() {
        let gateways = routes().unwrap().gateways;
        let routes = std::fs::read_to_string("/proc/net/route").unwrap();
        for route in routes.lines().skip(1) {
            let gateway = u32::from_str_radix(route.split_whitespace().nth(2).unwrap(), 16).unwrap();
            let gateway = Ipv4Addr::from(gateway.to_ne_bytes());
            assert!(gateway.is_unspecified() || gateways.contains(&gateway.into()), "{gateway}");
        }
    }

    /// The kernel lists local routes by default.
    #[test]
    fn only_unicast_routes_are_listed() {
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let listed_of = |kind| {
                let mut wanted = RouteMessage::default();
                (wanted.header.address_family, wanted.header.kind) = (family, kind);
                listed(&RouteNetlinkMessage::GetRoute(wanted), |answers| answers.routes).unwrap()
            };
            let kinds = |routes: Vec<RouteMessage>| routes.into_iter().map(|route| route.header.kind);
            assert!(kinds(listed_of(RouteType::Unspec)).any(|kind| kind == RouteType::Local));
            assert!(kinds(listed_of(RouteType::Unicast)).all(|kind| kind == RouteType::Unicast));
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

    #[test]
    fn the_network_of_loopback_is_known() {
        let networks = addresses().unwrap().networks;
        assert!(networks.contains(&"127.0.0.0/8".parse().unwrap()), "{networks:?}");
    }

    #[test]
    fn only_routes_of_the_kernel_and_of_routers_name_networks() {
        let to = |protocol, kind, more: Option<RouteAttribute>| {
            let mut route = RouteMessage::default();
            (route.header.protocol, route.header.kind, route.header.destination_prefix_length) = (protocol, kind, 24);
            let destination = RouteAddress::Inet(Ipv4Addr::new(192, 0, 2, 0));
            route.attributes = [RouteAttribute::Destination(destination)].into_iter().chain(more).collect();
            on_link(&route)
        };
        let network = Some("192.0.2.0/24".parse().unwrap());
        assert_eq!(to(RouteProtocol::Kernel, RouteType::Unicast, None), network);
        assert_eq!(to(RouteProtocol::Ra, RouteType::Unicast, None), network);
        assert_eq!(to(RouteProtocol::Static, RouteType::Unicast, None), None);
        assert_eq!(to(RouteProtocol::Kernel, RouteType::Local, None), None);
        let gateway = RouteAttribute::Gateway(RouteAddress::Inet(Ipv4Addr::new(192, 0, 2, 1)));
        assert_eq!(to(RouteProtocol::Kernel, RouteType::Unicast, Some(gateway)), None);
    }
}
