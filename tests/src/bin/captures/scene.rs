//! What is recorded: one scene, one file.

use anyhow::Result;
use ratelimit_tests::{Sandbox, VICTIM_IPV4, VICTIM_IPV6};

use crate::{dns, options, ping, recorder::Recorder, tcp};

/// Something that happens on the wire.
pub(crate) struct Scene {
    /// The file's name.
    pub(crate) file: &'static str,
    /// The programs that talk.
    pub(crate) by: &'static str,
    /// What the file shows.
    pub(crate) contents: &'static str,
    /// Makes it happen.
    pub(crate) play: fn(&Sandbox, &mut Recorder) -> Result<()>,
}

/// All of them, in the order in which they happen: the ends of the wire look for each other in the first one.
pub(crate) const SCENES: [Scene; 6] = [
    Scene {
        file: "ping.pcap",
        by: "`ping`",
        contents: "ARP, neighbour discovery, the multicast reports (MLD) of a fresh address, echo requests \
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
        contents: "the same over IPv6",
        play: |sandbox, _| tcp::talk(sandbox, VICTIM_IPV6.into()),
    },
    Scene {
        file: "dns.pcap",
        by: "`dig`, `dnsmasq`",
        contents: "DNS questions and answers over IPv4 and IPv6, by UDP and TCP, and one for a name that is not there",
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
