//! What makes a sandbox's wire one of the usual kind.

use std::{fs, net::Ipv6Addr};

use anyhow::{Context as _, Result};
use ratelimit_tests::{PEER_IPV6, PEER_LINK, Sandbox, VICTIM_IPV6, VICTIM_LINK};

use crate::run::run;

/// Gives the ends link addresses that differ, has them look for each other's, and leaves nothing to a network card, as
/// there is none: frames are then as long as on a wire, and their checksums are right.
pub(crate) fn prepare(sandbox: &Sandbox) -> Result<()> {
    sandbox.victim(|| prepare_end(VICTIM_LINK, "02:00:00:00:00:01", VICTIM_IPV6))?;
    sandbox.peer(|| prepare_end(PEER_LINK, "02:00:00:00:00:02", PEER_IPV6))
}

fn prepare_end(link: &str, address: &str, ipv6: Ipv6Addr) -> Result<()> {
    run(&format!("ethtool -K {link} rx off tx off sg off tso off gso off gro off"))?;
    // Milliseconds between the reports of a multicast group, which are sent twice.
    set(&format!("ipv4/conf/{link}/igmpv3_unsolicited_report_interval"), 1)?;
    set(&format!("ipv6/conf/{link}/mldv2_unsolicited_report_interval"), 1)?;
    run(&format!("ip link set {link} address {address} arp on"))?;
    // As long as the link needed no neighbour discovery, the address did not join the group by which it is discovered.
    run(&format!("ip address del {ipv6}/32 dev {link}"))?;
    run(&format!("ip address add {ipv6}/32 dev {link} nodad"))
}

/// Changes a setting of the calling thread's network namespace.
pub(crate) fn set(setting: &str, value: u32) -> Result<()> {
    fs::write(format!("/proc/sys/net/{setting}"), value.to_string()).with_context(|| format!("cannot set {setting}"))
}
