//! SYNs to addresses of other hosts, which a listener on all addresses must not answer.

use std::{
    fs,
    net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener},
};

use ratelimit_common::reason::Reason;
use ratelimit_dataplane::program::loader::Settings;
use ratelimit_tests::{Bytecode, PEER_IPV4, PEER_IPV6, Segment, VICTIM_IPV4, VICTIM_IPV6};

use super::{
    cookies::{always, load},
    on_the_victim,
};

/// Addresses behind the victim: one on its link, one without a neighbour, and one that a route refuses.
/// The last one has a route for this sender alone.
const OTHERS: [&str; 7] =
    ["10.9.0.2", "10.9.0.77", "192.0.2.1", "fd00:9::2", "fd00:9::77", "2001:db8:1::1", "203.0.113.9"];

/// Makes the victim a router, or a host that forwards nothing.
fn forward(is_on: bool) {
    for file in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
        fs::write(format!("/proc/sys/net/{file}"), if is_on { "1" } else { "0" }).unwrap();
    }
}

/// Sends a first SYN to this address of the port, and returns its reason.
fn reason(bytecode: &Bytecode, to: IpAddr, port: u16) -> Reason {
    let from: IpAddr = if to.is_ipv4() { [10, 77, 0, 1].into() } else { [0x2001, 0xdb8, 7, 0, 0, 0, 0, 7].into() };
    let syn = Segment::syn(SocketAddr::new(from, 5_000), SocketAddr::new(to, port)).frame(&[]);
    bytecode.reason(&syn)
}

#[test]
fn a_router_answers_no_syn_that_it_forwards() {
    on_the_victim(|sandbox| {
        always();
        sandbox.ip("route add blackhole 192.0.2.0/24");
        sandbox.ip("-6 route add blackhole 2001:db8:1::/48");
        sandbox.ip("route del default");
        sandbox.ip("route add 10.9.0.0/16 dev eth0");
        sandbox.ip("-6 route add fd00:9::/32 dev eth0");
        sandbox.ip("rule add from 10.77.0.0/16 lookup 100");
        sandbox.ip("route add 203.0.113.0/24 dev eth0 table 100");
        let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let own = [VICTIM_IPV4.into(), VICTIM_IPV6.into()];
        let others = OTHERS.map(|address| address.parse::<IpAddr>().unwrap());
        assert!(others.contains(&PEER_IPV4.into()) && others.contains(&PEER_IPV6.into()));
        for frags in [true, false] {
            let bytecode = load(Settings { frags, ..crate::settings() });
            forward(true);
            for address in own {
                assert_eq!(reason(&bytecode, address, port), Reason::SynCookie, "{address}");
            }
            for address in others {
                assert_eq!(reason(&bytecode, address, port), Reason::OverUnknown, "{address}");
            }
            // A host that forwards nothing gets no packets for others, except by mistake.
            forward(false);
            for address in own.into_iter().chain(others) {
                assert_eq!(reason(&bytecode, address, port), Reason::SynCookie, "{address}");
            }
        }
    });
}
