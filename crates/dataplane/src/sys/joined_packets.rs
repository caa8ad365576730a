//! Devices that join packets of a sender before an XDP program sees them. A joined packet counts as one, so a limit then
//! admits more packets than it says.
//!
//! A driver that runs a native program joins nothing, and a generic program ends the joining of its own device. What
//! remains (net/core/gro.c, drivers/net/veth.c, drivers/net/tun.c) is in [`Joining`].

use std::{collections::BTreeSet, fmt};

use netlink_packet_core::Nla as _;
use netlink_packet_route::{
    RouteNetlinkMessage,
    link::{InfoData, InfoKind, InfoTun, LinkAttribute, LinkInfo, LinkMessage},
};
use ratelimit_base::text::excerpt::escaped;

use crate::{
    Error,
    sys::{ethtool::Ethtool, netlink},
};

/// The kernel's attribute that says whether packets of a tun or tap device come with a header of virtio
/// (`IFLA_TUN_VNET_HDR` in include/uapi/linux/if_link.h).
const TUN_VNET_HDR: u16 = 5;

/// Offloads that join what a card receives: the name of the feature, and the name that `ethtool -K` takes.
const RECEIVING: [(&str, &str); 2] = [("rx-gro", "gro"), ("rx-gro-hw", "rx-gro-hw")];

/// Offloads by which the other end of a veth pair sends several packets as one.
const SENDING: [(&str, &str); 3] = [
    ("tx-tcp-segmentation", "tx-tcp-segmentation off"),
    ("tx-tcp6-segmentation", "tx-tcp6-segmentation off"),
    ("tx-udp-segmentation", "tx-udp-segmentation off"),
];

/// A device that joins packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joining {
    /// The device. Of a pair whose other end is in another network namespace, the end that is in this one.
    pub device: String,
    /// What it does.
    pub by: JoinedBy,
}

/// How packets are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinedBy {
    /// The device joins what it receives, for the interface above it.
    Receiving {
        /// The option of `ethtool -K`.
        option: &'static str,
    },
    /// The other end of this veth pair sends several packets as one.
    Pair {
        /// Whether the other end is in this network namespace. [`Joining::device`] is its name then.
        is_here: bool,
    },
    /// The program that has opened this tun or tap device can write joined packets.
    Writer,
}

impl Joining {
    /// Returns the command that ends it. None if it must run elsewhere.
    #[must_use]
    pub fn fix(&self) -> Option<String> {
        match self.by {
            JoinedBy::Receiving { option } => Some(format!("ethtool -K {} {option} off", self.device)),
            JoinedBy::Pair { is_here: true } => {
                Some(format!("ethtool -K {} {}", self.device, SENDING.map(|(_, option)| option).join(" ")))
            }
            JoinedBy::Pair { is_here: false } | JoinedBy::Writer => None,
        }
    }
}

impl fmt::Display for Joining {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let device = &self.device;
        match self.by {
            JoinedBy::Receiving { option } => write!(f, "{device} joins packets that it receives ({option})"),
            JoinedBy::Pair { is_here: true } => write!(f, "{device} sends several packets as one"),
            JoinedBy::Pair { is_here: false } => write!(
                f,
                "the other end of {device}, which cannot be seen from this network namespace, may send several packets as one. To end that, run there: `ethtool -K NAME {}`",
                SENDING.map(|(_, option)| option).join(" ")
            ),
            JoinedBy::Writer => write!(
                f,
                "the program that has opened {device} may write joined packets. Switch off its offloads, or limit its packets elsewhere"
            ),
        }
    }
}

/// Returns the devices that join packets for a program on the interface with this index.
///
/// # Errors
///
/// [`Error::Netlink`] if the kernel does not list the interfaces.
pub fn find(index: u32, is_generic: bool) -> Result<Vec<Joining>, Error> {
    let all = netlink::dump(&RouteNetlinkMessage::GetLink(LinkMessage::default()), netlink::TRIES)?;
    let links: Vec<Link> = all.iter().filter_map(Link::of).collect();
    let is_on = |device: &str, feature: &str| {
        Ethtool::of(device).is_ok_and(|ethtool| ethtool.feature(feature).is_some_and(|feature| feature.is_on))
    };
    Ok(search(&links, index, is_generic, &is_on))
}

/// An interface, and which others are below it.
#[derive(Debug, Clone, Default)]
struct Link {
    index: u32,
    name: String,
    kind: Option<InfoKind>,
    /// The interface below, or the other end of a pair.
    other: Option<u32>,
    /// Whether the other one is in another network namespace.
    is_elsewhere: bool,
    /// The bridge, bond or other interface that it is a port of.
    controller: Option<u32>,
    /// Whether it is a tun or tap device whose packets come with a header of virtio.
    has_virtio_header: bool,
}

impl Link {
    fn of(message: &LinkMessage) -> Option<Self> {
        let mut link = Self { index: message.header.index, ..Self::default() };
        for attribute in &message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => link.name = escaped(name),
                LinkAttribute::Link(other) => link.other = Some(*other),
                LinkAttribute::LinkNetNsId(_) => link.is_elsewhere = true,
                LinkAttribute::Controller(controller) => link.controller = Some(*controller),
                LinkAttribute::LinkInfo(infos) => infos.iter().for_each(|info| match info {
                    LinkInfo::Kind(kind) => link.kind = Some(kind.clone()),
                    LinkInfo::Data(InfoData::Tun(data)) => link.has_virtio_header = data.iter().any(is_virtio_header),
                    _ => {}
                }),
                _ => {}
            }
        }
        (!link.name.is_empty()).then_some(link)
    }

    fn is(&self, kind: &InfoKind) -> bool {
        self.kind.as_ref() == Some(kind)
    }

    /// Returns whether its packets arrive in the packets of any other interface, as the routes say.
    fn is_tunnel(&self) -> bool {
        use InfoKind::{ErSpan, Geneve, GreTap, GreTap6, GreTun, GreTun6, Ip6ErSpan, Ip6Tnl, IpIp, SitTun, Vxlan};
        let tunnels = [ErSpan, Geneve, GreTap, GreTap6, GreTun, GreTun6, Ip6ErSpan, Ip6Tnl, IpIp, SitTun, Vxlan];
        self.kind.as_ref().is_some_and(|kind| tunnels.contains(kind))
    }
}

fn is_virtio_header(attribute: &InfoTun) -> bool {
    let mut value = vec![0; attribute.value_len()];
    attribute.emit_value(&mut value);
    attribute.kind() == TUN_VNET_HDR && value.first().is_some_and(|is_on| *is_on != 0)
}

fn search(links: &[Link], index: u32, is_generic: bool, is_on: &dyn Fn(&str, &str) -> bool) -> Vec<Joining> {
    let Some(own) = links.iter().find(|link| link.index == index) else { return Vec::new() };
    let mut found = Vec::new();
    if is_generic || own.is(&InfoKind::Tun) {
        found.extend(sender(links, own, is_on));
    }
    for lower in below(links, own) {
        for (_, option) in RECEIVING.into_iter().filter(|(feature, _)| is_on(&lower.name, feature)) {
            found.push(Joining { device: lower.name.clone(), by: JoinedBy::Receiving { option } });
        }
        found.extend(sender(links, lower, is_on));
    }
    found
}

/// Returns what hands joined packets to this device, if it is a virtual one.
fn sender(links: &[Link], link: &Link, is_on: &dyn Fn(&str, &str) -> bool) -> Option<Joining> {
    if link.has_virtio_header {
        return Some(Joining { device: link.name.clone(), by: JoinedBy::Writer });
    }
    if !link.is(&InfoKind::Veth) {
        return None;
    }
    let pair = links.iter().find(|other| !link.is_elsewhere && Some(other.index) == link.other);
    match pair {
        Some(pair) => SENDING
            .iter()
            .any(|(feature, _)| is_on(&pair.name, feature))
            .then(|| Joining { device: pair.name.clone(), by: JoinedBy::Pair { is_here: true } }),
        None => Some(Joining { device: link.name.clone(), by: JoinedBy::Pair { is_here: false } }),
    }
}

/// Returns the interfaces below this one, each once.
fn below<'a>(links: &'a [Link], own: &Link) -> Vec<&'a Link> {
    let (mut found, mut seen, mut next) = (Vec::new(), BTreeSet::from([own.index]), vec![own]);
    while let Some(upper) = next.pop() {
        // The other end of a pair is not below.
        let under = upper.other.filter(|_| !upper.is_elsewhere && !upper.is(&InfoKind::Veth));
        let is_below = |link: &&Link| {
            Some(link.index) == under
                || link.controller == Some(upper.index)
                || under.is_none() && upper.is_tunnel() && link.kind.is_none()
        };
        for lower in links.iter().filter(is_below) {
            if seen.insert(lower.index) {
                found.push(lower);
                next.push(lower);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(index: u32, name: &str, kind: Option<InfoKind>) -> Link {
        Link { index, name: name.to_owned(), kind, ..Link::default() }
    }

    fn texts(found: &[Joining]) -> Vec<String> {
        found.iter().map(|joining| joining.fix().unwrap_or_else(|| joining.to_string())).collect()
    }

    #[test]
    fn a_bridge_has_what_its_ports_join() {
        let links = [
            link(1, "lo", None),
            Link { controller: Some(4), ..link(2, "eth0", None) },
            Link { controller: Some(4), other: Some(9), is_elsewhere: true, ..link(3, "vm0", Some(InfoKind::Veth)) },
            link(4, "br0", Some(InfoKind::Bridge)),
            Link { controller: Some(4), has_virtio_header: true, ..link(5, "tap0", Some(InfoKind::Tun)) },
            Link { other: Some(4), ..link(6, "br0.7", Some(InfoKind::Vlan)) },
        ];
        let is_on = |device: &str, feature: &str| device == "eth0" && feature == "rx-gro";
        for upper in [4, 6] {
            let found = search(&links, upper, true, &is_on);
            let [first, second, third] = &*texts(&found) else { panic!("{found:?}") };
            assert_eq!(first, "ethtool -K eth0 gro off");
            assert!(second.starts_with("the other end of vm0, which cannot be seen"), "{second}");
            assert!(third.starts_with("the program that has opened tap0 may write joined packets"), "{third}");
        }
        assert!(search(&links, 2, true, &is_on).is_empty());
        assert!(search(&links, 7, true, &is_on).is_empty());
    }

    #[test]
    fn a_pair_joins_for_a_generic_program_only() {
        let pair = |index, name, other| Link { other: Some(other), ..link(index, name, Some(InfoKind::Veth)) };
        let links = [pair(2, "a", 3), pair(3, "b", 2)];
        let is_on = |device: &str, feature: &str| device == "b" && feature == "tx-udp-segmentation";
        let fix = "ethtool -K b tx-tcp-segmentation off tx-tcp6-segmentation off tx-udp-segmentation off";
        assert_eq!(texts(&search(&links, 2, true, &is_on)), [fix]);
        assert!(search(&links, 2, false, &is_on).is_empty());
        assert!(search(&links, 3, true, &is_on).is_empty());
    }

    #[test]
    fn a_tunnel_has_what_any_card_joins() {
        let links = [link(2, "eth0", None), link(3, "gre1", Some(InfoKind::GreTun))];
        let found = search(&links, 3, true, &|_, feature| feature == "rx-gro-hw");
        assert_eq!(texts(&found), ["ethtool -K eth0 rx-gro-hw off"]);
    }
}
