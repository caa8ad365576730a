//! The link type of an interface: with which header its packets begin.
//!
//! A program in generic mode begins at the link header, as far as the kernel keeps one. `read` is a statement about the
//! kernel's source, `run` one about packets that tests send (`network/raw_ip.rs`). In Linux 5.14 and later, packets
//! begin as follows:
//!
//! | link type and kind | begin | |
//! |---|---|---|
//! | Ethernet, loopback | Ethernet header | run |
//! | none: `tun`, `wireguard` | IP header | run |
//! | PPP | IP header | read |
//! | IPIP, SIT, `ip6tnl`, `ip6gre` | inner IP header | run |
//! | GRE with a fixed remote | inner IP header | run |
//! | GRE without one | outer IP header | run |
//! | none, IPIP and `ip6tnl` of IPsec: `xfrm`, `vti`, `vti6` | Ethernet header of the interface below, or IP header | read |

use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkFlags, LinkInfo, LinkLayerType, LinkMessage};

/// The header with which the packets of an interface begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstHeader {
    /// Ethernet.
    Ethernet,
    /// IPv4 or IPv6.
    Ip,
}

/// What the kernel says about the packets of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkType {
    number: LinkLayerType,
    kind: Option<InfoKind>,
    is_point_to_point: bool,
}

impl LinkType {
    /// Returns the link type in the kernel's description of an interface.
    pub fn of(link: &LinkMessage) -> Self {
        let kind = link.attributes.iter().find_map(|attribute| match attribute {
            LinkAttribute::LinkInfo(infos) => infos.iter().find_map(|info| match info {
                LinkInfo::Kind(kind) => Some(kind.clone()),
                _ => None,
            }),
            _ => None,
        });
        Self {
            number: link.header.link_layer_type,
            kind,
            is_point_to_point: link.header.flags.contains(LinkFlags::Pointopoint),
        }
    }

    /// Returns the kind of a virtual interface. None for a card.
    #[must_use]
    pub fn kind(&self) -> Option<&InfoKind> {
        self.kind.as_ref()
    }

    /// Returns the first header. None if it is unknown, or differs from packet to packet.
    #[must_use]
    pub fn first_header(&self) -> Option<FirstHeader> {
        let is_ip = match (self.number, &self.kind) {
            (LinkLayerType::Ether | LinkLayerType::Loopback, _) => return Some(FirstHeader::Ethernet),
            (LinkLayerType::None, Some(InfoKind::Tun | InfoKind::Wireguard))
            | (LinkLayerType::Ppp, _)
            | (LinkLayerType::Tunnel, Some(InfoKind::IpIp))
            | (LinkLayerType::Tunnel6, Some(InfoKind::Ip6Tnl))
            | (LinkLayerType::Sit, Some(InfoKind::SitTun))
            | (LinkLayerType::Ip6gre, Some(InfoKind::GreTun6)) => true,
            // The kernel sets this flag when a tunnel is created with the address of one host, and never changes it.
            (LinkLayerType::Ipgre, Some(InfoKind::GreTun)) => self.is_point_to_point,
            _ => false,
        };
        is_ip.then_some(FirstHeader::Ip)
    }

    /// Returns the kernel's number of the type, and the kind if there is one.
    #[must_use]
    pub fn name(&self) -> String {
        let number = u16::from(self.number);
        self.kind.as_ref().map_or_else(|| number.to_string(), |kind| format!("{number}, {kind}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(number: LinkLayerType, kind: Option<InfoKind>, is_point_to_point: bool) -> Option<FirstHeader> {
        LinkType { number, kind, is_point_to_point }.first_header()
    }

    #[test]
    fn ethernet_needs_no_kind() {
        for number in [LinkLayerType::Ether, LinkLayerType::Loopback] {
            for kind in [None, Some(InfoKind::Tun), Some(InfoKind::Other("new".to_owned()))] {
                assert_eq!(first(number, kind, false), Some(FirstHeader::Ethernet));
            }
        }
    }

    #[test]
    fn tunnels_of_ipsec_and_unknown_kinds_have_no_certain_header() {
        for (number, kind) in [
            (LinkLayerType::None, Some(InfoKind::Xfrm)),
            (LinkLayerType::None, Some(InfoKind::Other("new".to_owned()))),
            (LinkLayerType::None, None),
            (LinkLayerType::Tunnel, Some(InfoKind::Vti)),
            (LinkLayerType::Tunnel6, Some(InfoKind::Vti6)),
            (LinkLayerType::Infiniband, Some(InfoKind::Ipoib)),
            (LinkLayerType::Can, None),
        ] {
            assert_eq!(first(number, kind.clone(), true), None, "{number:?} {kind:?}");
        }
    }

    #[test]
    fn gre_needs_a_fixed_remote() {
        let gre = |is_point_to_point| first(LinkLayerType::Ipgre, Some(InfoKind::GreTun), is_point_to_point);
        assert_eq!((gre(true), gre(false)), (Some(FirstHeader::Ip), None));
    }
}
