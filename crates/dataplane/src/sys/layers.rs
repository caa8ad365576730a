//! Which interfaces are above others: a bridge above its ports, a VLAN above its parent.
//!
//! Two relations matter, and they differ:
//!
//! - [`below`]: a packet that a program on the upper interface sees has passed a program on the lower one before, with
//!   the same source. So both would charge it. A tunnel is no such interface: its inner packets have other sources. Nor
//!   is a VRF or Open vSwitch, whose own interface receives nothing from its ports.
//! - [`directly_above`]: the kernel refuses a program on an interface while one of these has a program
//!   (`dev_xdp_attach` in net/core/dev.c, Linux 5.10 to 6.18).
//!
//! Interfaces of other network namespaces cannot be seen.

use std::collections::BTreeSet;

use netlink_packet_route::link::InfoKind;

use super::interface::Interface;

/// Returns the interfaces of this namespace that every packet of `upper` may have passed, with the same source.
#[must_use]
pub fn below<'a>(all: &'a [Interface], upper: &Interface) -> Vec<&'a Interface> {
    let (mut found, mut seen, mut next) = (Vec::new(), BTreeSet::from([upper.index]), vec![upper]);
    while let Some(upper) = next.pop() {
        for lower in all.iter().filter(|lower| passes(lower, upper)) {
            if seen.insert(lower.index) {
                found.push(lower);
                next.push(lower);
            }
        }
    }
    found
}

/// Returns the interfaces whose program makes the kernel refuse one on `lower`.
pub fn directly_above<'a>(all: &'a [Interface], lower: &Interface) -> impl Iterator<Item = &'a Interface> {
    let (index, controller) = (lower.index, lower.controller);
    all.iter().filter(move |upper| Some(upper.index) == controller || upper.base == Some(index) && is_linked(upper))
}

/// Sorts interfaces so that each comes before those above it. Others keep their order.
pub fn sort_lower_first<T>(all: &[Interface], sorted: &mut [T], index: impl Fn(&T) -> u32) {
    let depth = |one: &T| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![index(one)]);
        while let Some(upper) = next.pop() {
            let base = all.iter().find(|interface| interface.index == upper).and_then(|upper| upper.base);
            let ports = all.iter().filter(|port| port.controller == Some(upper)).map(|port| port.index);
            next.extend(base.into_iter().chain(ports).filter(|lower| seen.insert(*lower)));
        }
        seen.len()
    };
    // What is below a lower interface is below the upper one, too.
    sorted.sort_by_key(depth);
}

/// Returns whether the packets of `upper` come from `lower`, as they are.
fn passes(lower: &Interface, upper: &Interface) -> bool {
    use InfoKind::{Bond, Bridge, IpVlan, IpVtap, MacVlan, MacVtap, Team, Vlan};
    let kind = upper.link_type.kind();
    if lower.controller == Some(upper.index) {
        // Those without a kind are cards with a second one below (drivers/net/hyperv/netvsc_drv.c, net_failover.c).
        return matches!(kind, None | Some(Bridge | Bond | Team));
    }
    upper.base == Some(lower.index) && matches!(kind, Some(Vlan | MacVlan | MacVtap | IpVlan | IpVtap))
}

/// Returns whether the kernel links an interface with the one that it is made on. Tunnels such as GRE only name it.
fn is_linked(upper: &Interface) -> bool {
    use InfoKind::{Dsa, IpVlan, IpVtap, MacSec, MacVlan, MacVtap, Vlan, Vxlan};
    matches!(upper.link_type.kind(), Some(Vlan | MacVlan | MacVtap | IpVlan | IpVtap | MacSec | Vxlan | Dsa))
}

#[cfg(test)]
pub(crate) mod tests {
    use netlink_packet_route::link::{LinkAttribute, LinkInfo, LinkMessage};

    use super::*;
    use crate::sys::{interface::Received, link_type::LinkType};

    /// Returns an interface of a kind.
    pub(crate) fn interface(index: u32, name: &str, kind: Option<InfoKind>) -> Interface {
        let mut message = LinkMessage::default();
        if let Some(kind) = kind {
            message.attributes.push(LinkAttribute::LinkInfo(vec![LinkInfo::Kind(kind)]));
        }
        Interface {
            index,
            name: name.to_owned(),
            link_type: LinkType::of(&message),
            mtu: 1_500,
            program: None,
            is_up: true,
            has_carrier: true,
            received: Received::default(),
            controller: None,
            base: None,
            peer: None,
        }
    }

    fn port(index: u32, name: &str, controller: u32) -> Interface {
        Interface { controller: Some(controller), ..interface(index, name, None) }
    }

    fn on(index: u32, name: &str, base: u32, kind: InfoKind) -> Interface {
        Interface { base: Some(base), ..interface(index, name, Some(kind)) }
    }

    fn names(mut found: Vec<&Interface>) -> Vec<&str> {
        found.sort_by_key(|interface| interface.index);
        found.into_iter().map(|interface| interface.name.as_str()).collect()
    }

    #[test]
    fn a_stack_of_interfaces_is_followed_to_its_cards() {
        let all = [
            port(2, "eth0", 4),
            port(3, "eth1", 4),
            Interface { controller: Some(5), ..interface(4, "bond0", Some(InfoKind::Bond)) },
            interface(5, "br0", Some(InfoKind::Bridge)),
            on(6, "br0.7", 5, InfoKind::Vlan),
            on(7, "mv0", 6, InfoKind::MacVlan),
            interface(8, "eth2", None),
        ];
        let below = |index: usize| names(below(&all, &all[index]));
        assert_eq!(below(5), ["eth0", "eth1", "bond0", "br0", "br0.7"]);
        assert_eq!(below(3), ["eth0", "eth1", "bond0"]);
        assert!(below(0).is_empty() && below(6).is_empty());
        let above = |index: usize| names(directly_above(&all, &all[index]).collect());
        assert_eq!([above(0), above(2), above(3), above(4)], [["bond0"], ["br0"], ["br0.7"], ["mv0"]]);
        assert!(above(5).is_empty() && above(6).is_empty());
        let mut sorted = [7, 5, 8, 6, 3, 4, 2];
        sort_lower_first(&all, &mut sorted, |index| *index);
        assert_eq!(sorted, [8, 3, 2, 4, 5, 6, 7]);
    }

    #[test]
    fn a_tunnel_charges_other_sources_but_the_kernel_wants_its_card_first() {
        let all = [
            interface(2, "eth0", None),
            on(3, "vxlan0", 2, InfoKind::Vxlan),
            on(4, "gre1", 2, InfoKind::GreTun),
            on(5, "macsec0", 2, InfoKind::MacSec),
        ];
        assert!(all.iter().all(|interface| below(&all, interface).is_empty()));
        assert_eq!(names(directly_above(&all, &all[0]).collect()), ["vxlan0", "macsec0"]);
        let mut sorted = [3, 2];
        sort_lower_first(&all, &mut sorted, |index| *index);
        assert_eq!(sorted, [2, 3]);
    }

    #[test]
    fn some_controllers_receive_nothing_from_their_ports() {
        for (kind, is_below) in [
            (Some(InfoKind::Vrf), false),
            (Some(InfoKind::Other("openvswitch".to_owned())), false),
            (Some(InfoKind::BatAdv), false),
            (Some(InfoKind::Team), true),
            (None, true),
        ] {
            let all = [port(2, "eth0", 3), interface(3, "upper", kind.clone())];
            assert_eq!(!below(&all, &all[1]).is_empty(), is_below, "{kind:?}");
            assert_eq!(directly_above(&all, &all[0]).count(), 1);
        }
    }
}
