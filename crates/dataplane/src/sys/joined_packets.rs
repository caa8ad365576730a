//! Devices that join packets of a sender before an XDP program sees them. A joined packet counts as one, so a limit then
//! admits more packets than it says.
//!
//! A native program sees packets before anything joins them, except on a tun device. For a generic program, the kernel
//! stops the joining of its own device, if the driver can. What remains (net/core/gro.c, drivers/net/veth.c,
//! drivers/net/tun.c) is in [`Joining`].

use std::{collections::BTreeSet, fmt};

use netlink_packet_core::Nla as _;
use netlink_packet_route::{
    RouteNetlinkMessage,
    link::{InfoData, InfoKind, InfoTun, LinkAttribute, LinkInfo, LinkLayerType, LinkMessage, LinkXdp, XdpAttached},
};
use ratelimit_base::text::excerpt::escaped;

use crate::{
    Error,
    sys::{
        ethtool::{Ethtool, Feature},
        interface::{self, Attached, Interface},
        netlink,
    },
};

/// The kernel's attribute that says whether packets of a tun or tap device come with a header of virtio
/// (`IFLA_TUN_VNET_HDR` in include/uapi/linux/if_link.h).
const TUN_VNET_HDR: u16 = 5;

/// Offloads that join what a card receives, by the names that the kernel and `ethtool -K` share.
const RECEIVING: [&str; 3] = ["rx-gro", "rx-gro-hw", "rx-lro"];
/// Those that the card itself does.
const BY_CARD: [&str; 2] = ["rx-gro-hw", "rx-lro"];

/// Offloads by which the other end of a veth pair sends several packets as one.
const SENDING: [&str; 4] =
    ["tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-udp-segmentation", "tx-sctp-segmentation"];

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
        /// The offload.
        feature: &'static str,
    },
    /// The card joins what it receives, and its driver cannot switch that off.
    Card {
        /// The offload.
        feature: &'static str,
    },
    /// Devices below this one are in another network namespace.
    Elsewhere,
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
            JoinedBy::Receiving { feature } => Some(format!("ethtool -K {} {feature} off", self.device)),
            JoinedBy::Pair { is_here: true } => Some(send_each_alone(&self.device)),
            JoinedBy::Card { .. } | JoinedBy::Elsewhere | JoinedBy::Pair { is_here: false } | JoinedBy::Writer => None,
        }
    }
}

impl fmt::Display for Joining {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let device = &self.device;
        match self.by {
            JoinedBy::Receiving { feature } => write!(f, "{device} joins packets that it receives ({feature})"),
            JoinedBy::Card { feature } => write!(
                f,
                "{device} joins packets that it receives ({feature}), and its driver cannot switch that off. In a virtual machine, the host can"
            ),
            JoinedBy::Elsewhere => write!(
                f,
                "the device below {device}, which cannot be seen from this network namespace, may join packets. To end that, run there: `ethtool -K NAME rx-gro off`"
            ),
            JoinedBy::Pair { is_here: true } => write!(f, "{device} sends several packets as one"),
            JoinedBy::Pair { is_here: false } => write!(
                f,
                "the other end of {device}, which cannot be seen from this network namespace, may send several packets as one. To end that, run there: `{}`",
                send_each_alone("NAME")
            ),
            JoinedBy::Writer => write!(
                f,
                "the program that has opened {device} may write joined packets. Switch off its offloads, or limit its packets elsewhere"
            ),
        }
    }
}

/// Returns the command after which a device sends each packet alone.
fn send_each_alone(device: &str) -> String {
    format!("ethtool -K {device} {}", SENDING.map(|feature| format!("{feature} off")).join(" "))
}

/// Returns a line for each device that joins packets for a program on one of these interfaces, as far as the kernel tells.
#[must_use]
pub fn notices(names: &[String]) -> Vec<String> {
    let of = |interface: Interface| {
        let is_generic = interface.program.is_some_and(|program| program.mode == Attached::Generic);
        let found = find(interface.index, is_generic).unwrap_or_default();
        found.into_iter().map(move |joining| {
            let fix = joining.fix().map_or_else(String::new, |fix| format!(": `{fix}`"));
            format!("{}: joined packets count as one: {joining}{fix}", interface.name)
        })
    };
    interface::find(names).unwrap_or_default().into_iter().flat_map(of).collect()
}

/// Returns the devices that join packets for a program on the interface with this index.
///
/// # Errors
///
/// [`Error::Netlink`] if the kernel does not list the interfaces.
pub fn find(index: u32, is_generic: bool) -> Result<Vec<Joining>, Error> {
    let all = netlink::dump(&RouteNetlinkMessage::GetLink(LinkMessage::default()), netlink::TRIES)?;
    let links: Vec<Link> = all.iter().filter_map(Link::of).collect();
    let feature = |device: &str, name: &str| Ethtool::of(device).ok().and_then(|ethtool| ethtool.feature(name));
    Ok(search(&links, index, is_generic, &feature))
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
    /// Whether it has a generic program. Then the kernel joins nothing that it receives.
    has_generic_program: bool,
    is_loopback: bool,
}

impl Link {
    fn of(message: &LinkMessage) -> Option<Self> {
        let is_loopback = message.header.link_layer_type == LinkLayerType::Loopback;
        let mut link = Self { index: message.header.index, is_loopback, ..Self::default() };
        for attribute in &message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => link.name = escaped(name),
                // The kernel writes 0 for none.
                LinkAttribute::Link(other) => link.other = Some(*other).filter(|other| *other != 0),
                LinkAttribute::Xdp(xdp) => {
                    let is_generic = |it: &LinkXdp| matches!(it, LinkXdp::Attached(XdpAttached::SocketBuffer));
                    link.has_generic_program = xdp.iter().any(is_generic);
                }
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

    /// Returns whether the kernel can join packets that it receives: those of a card, and those of a veth for which that
    /// is switched on. The feature alone does not tell, as every device has it.
    fn can_join(&self) -> bool {
        !self.has_generic_program && !self.is_loopback && (self.kind.is_none() || self.is(&InfoKind::Veth))
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

/// Asks for a feature of the device with this name.
type AskFeature<'a> = &'a dyn Fn(&str, &str) -> Option<Feature>;

fn search(links: &[Link], index: u32, is_generic: bool, feature: AskFeature<'_>) -> Vec<Joining> {
    let Some(own) = links.iter().find(|link| link.index == index) else { return Vec::new() };
    let mut found = Vec::new();
    if is_generic || own.is(&InfoKind::Tun) {
        found.extend(sender(links, own, feature));
    }
    if !is_generic {
        return found;
    }
    let is_fixed = |name: &&str| feature(&own.name, name).is_some_and(|feature| feature.is_on && !feature.can_change);
    for feature in BY_CARD.into_iter().filter(is_fixed) {
        found.push(Joining { device: own.name.clone(), by: JoinedBy::Card { feature } });
    }
    let below = below(links, own);
    for upper in below.iter().copied().chain([own]).filter(|link| link.is_elsewhere && !link.is(&InfoKind::Veth)) {
        found.push(Joining { device: upper.name.clone(), by: JoinedBy::Elsewhere });
    }
    for lower in below {
        let is_on = |name: &str| feature(&lower.name, name).is_some_and(|feature| feature.is_on);
        for feature in RECEIVING.into_iter().filter(|feature| lower.can_join() && is_on(feature)) {
            found.push(Joining { device: lower.name.clone(), by: JoinedBy::Receiving { feature } });
        }
        found.extend(sender(links, lower, feature));
    }
    found
}

/// Returns what hands joined packets to this device, if it is a virtual one.
fn sender(links: &[Link], link: &Link, feature: AskFeature<'_>) -> Option<Joining> {
    if link.has_virtio_header {
        return Some(Joining { device: link.name.clone(), by: JoinedBy::Writer });
    }
    if !link.is(&InfoKind::Veth) {
        return None;
    }
    let pair = links.iter().find(|other| !link.is_elsewhere && Some(other.index) == link.other);
    let sends = |pair: &Link| SENDING.iter().any(|name| feature(&pair.name, name).is_some_and(|it| it.is_on));
    match pair {
        Some(pair) => sends(pair).then(|| Joining { device: pair.name.clone(), by: JoinedBy::Pair { is_here: true } }),
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
                || under.is_none() && !upper.is_elsewhere && upper.is_tunnel() && link.can_join()
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

    /// Says that these features of these devices are on.
    fn on(features: &[(&str, &str)]) -> impl Fn(&str, &str) -> Option<Feature> {
        |device, name| Some(Feature { is_on: features.contains(&(device, name)), can_change: true })
    }

    #[test]
    fn a_bridge_has_what_its_ports_join() {
        let links = [
            Link { is_loopback: true, ..link(1, "lo", None) },
            Link { controller: Some(4), ..link(2, "eth0", None) },
            Link { controller: Some(4), other: Some(9), is_elsewhere: true, ..link(3, "vm0", Some(InfoKind::Veth)) },
            link(4, "br0", Some(InfoKind::Bridge)),
            Link { controller: Some(4), has_virtio_header: true, ..link(5, "tap0", Some(InfoKind::Tun)) },
            Link { other: Some(4), ..link(6, "br0.7", Some(InfoKind::Vlan)) },
        ];
        // Every device has this feature, also those that join nothing.
        let all = ["lo", "eth0", "br0", "tap0", "br0.7"].map(|device| (device, "rx-gro"));
        let is_on = on(&all);
        for upper in [4, 6] {
            let found = search(&links, upper, true, &is_on);
            let [first, second, third] = &*texts(&found) else { panic!("{found:?}") };
            assert_eq!(first, "ethtool -K eth0 rx-gro off");
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
        let is_on = on(&[("b", "tx-udp-segmentation")]);
        let fix = "ethtool -K b tx-tcp-segmentation off tx-tcp6-segmentation off tx-udp-segmentation off tx-sctp-segmentation off";
        assert_eq!(texts(&search(&links, 2, true, &is_on)), [fix]);
        assert!(search(&links, 2, false, &is_on).is_empty());
        assert!(search(&links, 3, true, &is_on).is_empty());
    }

    #[test]
    fn a_tunnel_has_what_any_card_joins() {
        let links = [
            Link { is_loopback: true, ..link(1, "lo", None) },
            link(2, "eth0", None),
            link(3, "gre1", Some(InfoKind::GreTun)),
            Link { has_generic_program: true, ..link(4, "eth1", None) },
        ];
        let all = ["lo", "eth0", "gre1", "eth1"].map(|device| (device, "rx-gro"));
        let is_on = on(&all);
        assert_eq!(texts(&search(&links, 3, true, &is_on)), ["ethtool -K eth0 rx-gro off"]);
    }

    #[test]
    fn a_native_program_sees_packets_before_they_are_joined() {
        let links = [
            Link { controller: Some(3), ..link(2, "eth0", None) },
            link(3, "bond0", Some(InfoKind::Bond)),
            Link { has_virtio_header: true, ..link(4, "tun0", Some(InfoKind::Tun)) },
        ];
        let is_on = on(&[("eth0", "rx-gro")]);
        assert!(search(&links, 3, false, &is_on).is_empty());
        assert_eq!(texts(&search(&links, 3, true, &is_on)), ["ethtool -K eth0 rx-gro off"]);
        assert!(texts(&search(&links, 4, false, &is_on))[0].starts_with("the program that has opened tun0"));
    }

    #[test]
    fn a_card_that_joins_by_itself_and_what_cannot_be_seen_are_named() {
        let below = Link { other: Some(2), is_elsewhere: true, ..link(3, "macvlan0", Some(InfoKind::MacVlan)) };
        let links = [link(2, "eth0", None), below];
        let fixed = |_: &str, name: &str| Some(Feature { is_on: name == "rx-gro-hw", can_change: false });
        assert!(
            texts(&search(&links, 2, true, &fixed))[0].starts_with("eth0 joins packets that it receives (rx-gro-hw)")
        );
        let of_macvlan = texts(&search(&links, 3, true, &on(&[])));
        assert!(of_macvlan[0].starts_with("the device below macvlan0, which cannot be seen"), "{of_macvlan:?}");
    }
}
