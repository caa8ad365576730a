//! Which interfaces are above others: a bridge above its ports, a VLAN above its parent.
//!
//! Two relations matter, and they differ:
//!
//! - [`Stack::below`]: a packet that a program on the upper interface sees has passed a program on the lower one before, with
//!   the same source. So both would charge it. A tunnel is no such interface: its inner packets have other sources. Nor
//!   is a VRF or Open vSwitch, whose own interface receives nothing from its ports.
//! - [`directly_above`]: the kernel refuses a program on an interface while one of these has a program
//!   (`dev_xdp_attach` in net/core/dev.c, Linux 5.10 to 6.18).
//!
//! Interfaces of other network namespaces cannot be seen.

use std::collections::{BTreeSet, HashMap};

use netlink_packet_route::link::InfoKind;

use super::interface::Interface;

/// What is above and below each interface of this namespace.
#[derive(Debug)]
pub struct Stack<'a> {
    by_name: HashMap<&'a str, &'a Interface>,
    by_index: HashMap<u32, &'a Interface>,
    /// The interfaces directly below one, from which its packets come as they are.
    directly_below: HashMap<u32, Vec<u32>>,
    below: HashMap<u32, BTreeSet<u32>>,
    above: HashMap<u32, BTreeSet<u32>>,
}

impl<'a> Stack<'a> {
    /// Finds it once for all interfaces.
    #[must_use]
    pub fn of(all: &'a [Interface]) -> Self {
        let by_index: HashMap<u32, &Interface> = all.iter().map(|one| (one.index, one)).collect();
        let mut directly_below: HashMap<u32, Vec<u32>> = HashMap::new();
        let mut add = |lower: &Interface, upper: &Interface| {
            if passes(lower, upper) {
                directly_below.entry(upper.index).or_default().push(lower.index);
            }
        };
        for one in all {
            let of = |index: Option<u32>| index.and_then(|index| by_index.get(&index));
            if let Some(base) = of(one.base) {
                add(base, one);
            }
            if let Some(upper) = of(one.controller).filter(|upper| upper.base != Some(one.index)) {
                add(one, upper);
            }
        }
        let (mut below, mut above): (HashMap<u32, BTreeSet<u32>>, HashMap<u32, BTreeSet<u32>>) = Default::default();
        for &upper in directly_below.keys() {
            let (mut found, mut next) = (BTreeSet::new(), vec![upper]);
            while let Some(lower) = next.pop() {
                let more = directly_below.get(&lower).into_iter().flatten().copied();
                next.extend(more.filter(|lower| *lower != upper && found.insert(*lower)));
            }
            for lower in &found {
                above.entry(*lower).or_default().insert(upper);
            }
            below.insert(upper, found);
        }
        let by_name = all.iter().map(|one| (one.name.as_str(), one)).collect();
        Self { by_name, by_index, directly_below, below, above }
    }

    /// Returns the interface of this name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&'a Interface> {
        self.by_name.get(name).copied()
    }

    /// Returns the interfaces that every packet of this one may have passed, with the same source.
    pub fn below(&self, upper: u32) -> impl Iterator<Item = &'a Interface> {
        self.below.get(&upper).into_iter().flatten().filter_map(|index| self.by_index.get(index).copied())
    }

    /// Returns the interfaces that packets of this one may pass afterwards, with the same source.
    pub fn above(&self, lower: u32) -> impl Iterator<Item = &'a Interface> {
        self.above.get(&lower).into_iter().flatten().filter_map(|index| self.by_index.get(index).copied())
    }

    /// Returns whether the packets of one interface pass another one before.
    #[must_use]
    pub fn is_below(&self, lower: u32, upper: u32) -> bool {
        self.below.get(&upper).is_some_and(|below| below.contains(&lower))
    }

    /// Returns whether packets of an interface pass one of these, before or afterwards, or it is one of these.
    #[must_use]
    pub fn is_related(&self, index: u32, others: &BTreeSet<u32>) -> bool {
        let is_any = |related: &HashMap<u32, BTreeSet<u32>>| {
            related.get(&index).is_some_and(|related| !related.is_disjoint(others))
        };
        others.contains(&index) || is_any(&self.below) || is_any(&self.above)
    }

    /// Returns the interfaces below `upper` from which packets come that pass none of `attached`. Nothing below these is
    /// attached.
    #[must_use]
    pub fn bare(&self, upper: u32, attached: &BTreeSet<u32>) -> Vec<&'a Interface> {
        let is_divided = |index: &u32| self.below.get(index).is_some_and(|below| !below.is_disjoint(attached));
        let (mut bare, mut seen, mut next) = (BTreeSet::new(), BTreeSet::new(), vec![upper]);
        while let Some(one) = next.pop() {
            for lower in self.directly_below.get(&one).into_iter().flatten().copied() {
                if attached.contains(&lower) || !seen.insert(lower) {
                    continue;
                }
                if is_divided(&lower) {
                    next.push(lower);
                } else {
                    bare.insert(lower);
                }
            }
        }
        bare.iter().filter_map(|index| self.by_index.get(index).copied()).collect()
    }
}

/// Returns whether an interface is a bond or a team. A source reaches it by any of its members.
#[must_use]
pub fn is_bond(interface: &Interface) -> bool {
    matches!(interface.link_type.kind(), Some(InfoKind::Bond | InfoKind::Team))
}

/// Returns the interfaces whose program makes the kernel refuse one on `lower`.
pub fn directly_above<'a>(all: &'a [Interface], lower: &Interface) -> impl Iterator<Item = &'a Interface> {
    let (index, controller) = (lower.index, lower.controller);
    all.iter().filter(move |upper| Some(upper.index) == controller || upper.base == Some(index) && is_linked(upper))
}

/// Sorts interfaces so that each comes before those above it. Others keep their order.
pub fn sort_lower_first<T>(all: &[Interface], sorted: &mut [T], index: impl Fn(&T) -> u32) {
    let mut below: HashMap<u32, Vec<u32>> = HashMap::new();
    for one in all {
        below.entry(one.index).or_default().extend(one.base);
        if let Some(upper) = one.controller {
            below.entry(upper).or_default().push(one.index);
        }
    }
    let depth = |one: &T| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![index(one)]);
        while let Some(upper) = next.pop() {
            next.extend(below.get(&upper).into_iter().flatten().copied().filter(|lower| seen.insert(*lower)));
        }
        seen.len()
    };
    // What is below a lower interface is below the upper one, too.
    sorted.sort_by_cached_key(depth);
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
        let stack = Stack::of(&all);
        let below = |index: usize| names(stack.below(all[index].index).collect());
        assert_eq!(below(5), ["eth0", "eth1", "bond0", "br0", "br0.7"]);
        assert_eq!(below(3), ["eth0", "eth1", "bond0"]);
        assert!(below(0).is_empty() && below(6).is_empty());
        assert_eq!(names(stack.above(2).collect()), ["bond0", "br0", "br0.7", "mv0"]);
        let bare = |attached: &[u32]| names(stack.bare(7, &attached.iter().copied().collect()));
        assert_eq!((bare(&[2]), bare(&[2, 3]), bare(&[8])), (vec!["eth1"], vec![], vec!["br0.7"]));
        let related = |moved: &[u32]| {
            let moved = moved.iter().copied().collect();
            names(all.iter().filter(|one| stack.is_related(one.index, &moved)).collect())
        };
        // A member of the bond, and an interface of its own.
        assert_eq!(related(&[2]), ["eth0", "bond0", "br0", "br0.7", "mv0"]);
        assert!(related(&[8]) == ["eth2"] && related(&[9]).is_empty());
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
        let stack = Stack::of(&all);
        assert!(all.iter().all(|interface| stack.below(interface.index).count() == 0));
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
            assert_eq!(Stack::of(&all).is_below(2, 3), is_below, "{kind:?}");
            assert_eq!(directly_above(&all, &all[0]).count(), 1);
        }
    }
}
