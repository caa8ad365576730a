//! Echo requests, small and large.

use std::net::IpAddr;

use anyhow::Result;
use ratelimit_tests::{PEER_IPV4, PEER_IPV6, Sandbox, VICTIM_IPV4, VICTIM_IPV6};

use crate::{run::run, udp};

/// The peer pings the victim, so both resolve each other's link address.
pub(crate) fn plain(sandbox: &Sandbox) -> Result<()> {
    sandbox.victim(|| run("ip neighbour flush all"))?;
    sandbox.peer(|| {
        run("ip neighbour flush all")?;
        run(&format!("ping -n -c 3 -i 0.2 {VICTIM_IPV4}"))?;
        run(&format!("ping -n -c 3 -i 0.2 {VICTIM_IPV6}"))
    })
}

/// The peer sends echo requests and datagrams that need fragments.
pub(crate) fn fragments(sandbox: &Sandbox) -> Result<()> {
    let ends: [(IpAddr, IpAddr); 2] = [(VICTIM_IPV4.into(), PEER_IPV4.into()), (VICTIM_IPV6.into(), PEER_IPV6.into())];
    for (victim, peer) in ends {
        sandbox.peer(|| run(&format!("ping -n -c 1 -s 4000 {victim}")))?;
        let server = sandbox.victim(|| udp::bind(victim))?;
        let client = sandbox.peer(|| udp::bind(peer))?;
        udp::echo(&client, &server, victim, 5_000)?;
    }
    Ok(())
}
