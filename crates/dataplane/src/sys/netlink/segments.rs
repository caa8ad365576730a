//! The TCP segments that routes accept.

use netlink_packet_core::NLM_F_DUMP;
use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    route::{RouteAttribute, RouteMessage, RouteMetric, RouteType},
};

use super::exchange_by;

/// Bytes of the headers of IP and TCP without options, over IPv4 and IPv6.
const HEADERS: [u32; 2] = [40, 60];
/// The least that the kernel offers for an MTU, unless it is configured otherwise (`min_adv_mss` in
/// Documentation/networking/ip-sysctl.rst).
const LEAST: [u32; 2] = [256, 1_220];

/// Returns the largest segments over IPv4 and IPv6 that all routes of this network namespace accept. 0 if no route says
/// anything. None if the kernel does not list the routes, for example because they change meanwhile or are too many.
pub fn accepted() -> [Option<u32>; 2] {
    [(AddressFamily::Inet, 0), (AddressFamily::Inet6, 1)].map(|(family, place)| {
        let mut route = RouteMessage::default();
        route.header.address_family = family;
        let answers = exchange_by(RouteNetlinkMessage::GetRoute(route), NLM_F_DUMP, true).ok()?;
        (!answers.is_interrupted).then(|| least(&answers.routes, HEADERS[place], LEAST[place]))
    })
}

fn least(routes: &[RouteMessage], headers: u32, least: u32) -> u32 {
    let ways = routes.iter().filter(|route| route.header.kind == RouteType::Unicast);
    ways.filter_map(|route| of_route(route, headers, least)).min().unwrap_or(0)
}

/// Returns the segment that the kernel offers to senders behind a route: `advmss`, or what its MTU leaves. None if the route
/// has neither.
fn of_route(route: &RouteMessage, headers: u32, least: u32) -> Option<u32> {
    let metrics = route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Metrics(metrics) => Some(metrics),
        _ => None,
    })?;
    let find = |wanted: fn(&RouteMetric) -> Option<u32>| metrics.iter().find_map(wanted).filter(|size| *size != 0);
    let offered = find(|metric| if let RouteMetric::Advmss(size) = metric { Some(*size) } else { None });
    let mtu = find(|metric| if let RouteMetric::Mtu(size) = metric { Some(*size) } else { None });
    offered.or_else(|| mtu.map(|mtu| mtu.saturating_sub(headers).max(least)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(metrics: &[RouteMetric]) -> RouteMessage {
        let mut route = RouteMessage::default();
        route.header.kind = RouteType::Unicast;
        route.attributes.extend([RouteAttribute::Oif(2), RouteAttribute::Metrics(metrics.to_vec())]);
        route
    }

    #[test]
    fn the_least_segment_of_all_routes_counts() {
        use RouteMetric::{Advmss, Hoplimit, Mtu};
        let [plain, hops] = [RouteMessage::default(), route(&[Hoplimit(64), Mtu(0), Advmss(0)])];
        assert_eq!(least(&[], 40, 256), 0);
        assert_eq!(least(&[plain.clone(), hops.clone()], 40, 256), 0);
        let routes = [plain, route(&[Mtu(1_400)]), hops, route(&[Mtu(1_280), Advmss(1_380)])];
        assert_eq!(least(&routes, 40, 256), 1_360);
        assert_eq!(least(&routes, 60, 1_220), 1_340);
        // The kernel offers no less for a tiny MTU, but any segment that an operator says.
        assert_eq!(least(&[route(&[Mtu(70)])], 40, 256), 256);
        assert_eq!(least(&[route(&[Mtu(0), Advmss(88)])], 40, 256), 88);
        // Packets that end here, or nowhere, have no way.
        let mut blackhole = route(&[Mtu(1_280)]);
        blackhole.header.kind = RouteType::BlackHole;
        assert_eq!(least(&[blackhole], 40, 256), 0);
    }
}
