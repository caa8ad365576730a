//! Turns a sandbox's wire into a usual Ethernet link.

use std::{fs, net::Ipv6Addr};

use anyhow::{Context as _, Result};
use ratelimit_tests::{PEER_IPV6, PEER_LINK, Sandbox, VICTIM_IPV6, VICTIM_LINK};

use crate::run::run;

/// Gives the ends different link addresses and address resolution, and disables offloads. Frames then have their length
/// on a real wire and valid checksums.
pub(crate) fn prepare(sandbox: &Sandbox) -> Result<()> {
    sandbox.victim(|| prepare_end(VICTIM_LINK, "02:00:00:00:00:01", VICTIM_IPV6))?;
    sandbox.peer(|| prepare_end(PEER_LINK, "02:00:00:00:00:02", PEER_IPV6))
}

fn prepare_end(link: &str, address: &str, ipv6: Ipv6Addr) -> Result<()> {
    run(&format!("ethtool -K {link} rx off tx off sg off tso off gso off gro off"))?;
    // Milliseconds between the two reports of a multicast group.
    set(&format!("ipv4/conf/{link}/igmpv3_unsolicited_report_interval"), 1)?;
    set(&format!("ipv6/conf/{link}/mldv2_unsolicited_report_interval"), 1)?;
    run(&format!("ip link set {link} address {address} arp on"))?;
    // While the link needed no neighbour discovery, the address did not join its solicited-node group.
    run(&format!("ip address del {ipv6}/32 dev {link}"))?;
    run(&format!("ip address add {ipv6}/32 dev {link} nodad"))
}

/// Changes a setting of the calling thread's network namespace.
pub(crate) fn set(setting: &str, value: u32) -> Result<()> {
    fs::write(format!("/proc/sys/net/{setting}"), value.to_string()).with_context(|| format!("cannot set {setting}"))
}
