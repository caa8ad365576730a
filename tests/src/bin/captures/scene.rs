//! The recorded scenes, one file each.

use anyhow::Result;
use ratelimit_tests::{Sandbox, VICTIM_IPV4, VICTIM_IPV6};

use crate::{dns, options, ping, recorder::Recorder, tcp};

/// A scene on the wire.
pub(crate) struct Scene {
    /// The file's name.
    pub(crate) file: &'static str,
    /// The programs that communicate.
    pub(crate) by: &'static str,
    /// Contents of the file.
    pub(crate) contents: &'static str,
    /// Plays the scene.
    pub(crate) play: fn(&Sandbox, &mut Recorder) -> Result<()>,
}

/// All scenes in their order. In the first one, both ends resolve each other's link address.
pub(crate) const SCENES: [Scene; 6] = [
    Scene {
        file: "ping.pcap",
        by: "`ping`",
        contents: "ARP, neighbour discovery, the multicast reports (MLD) of a new address, echo requests \
                   and replies over IPv4 and IPv6",
        play: |sandbox, _| ping::plain(sandbox),
    },
    Scene {
        file: "tcp.pcap",
        by: "`captures`",
        contents: "a TCP connection over IPv4 from SYN to FIN, 24 kB each way",
        play: |sandbox, _| tcp::talk(sandbox, VICTIM_IPV4.into()),
    },
    Scene {
        file: "tcp6.pcap",
        by: "`captures`",
        contents: "a TCP connection over IPv6 from SYN to FIN, 24 kB each way",
        play: |sandbox, _| tcp::talk(sandbox, VICTIM_IPV6.into()),
    },
    Scene {
        file: "dns.pcap",
        by: "`dig`, `dnsmasq`",
        contents: "DNS queries and responses over IPv4 and IPv6, by UDP and TCP, and a query for an unknown name",
        play: |sandbox, _| dns::ask(sandbox),
    },
    Scene {
        file: "fragments.pcap",
        by: "`ping -s 4000`, `captures`",
        contents: "first, middle and last fragments of echoes and of UDP datagrams of 5000 bytes, over IPv4 and IPv6",
        play: |sandbox, _| ping::fragments(sandbox),
    },
    Scene {
        file: "options.pcap",
        by: "`ping -R`, `ping -T`, `captures`, the kernel",
        contents: "IPv4 options (record route, timestamps, router alert) before ICMP, IGMP and TCP; IPv6 extension \
                   headers (hop-by-hop, routing, destination options, and these around fragments) before MLD, UDP \
                   and TCP",
        play: options::talk,
    },
];
