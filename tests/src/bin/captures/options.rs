//! IPv4 options and IPv6 extension headers.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr},
    os::fd::{AsFd, AsRawFd as _},
};

use anyhow::{Context as _, Result};
use ratelimit_tests::{PEER_IPV6, Sandbox, VICTIM_IPV4, VICTIM_IPV6, VICTIM_LINK};
use rustix::net::netdevice::name_to_index;

use crate::{recorder::Recorder, run::run, tcp::Connection, udp, wire};

/// Destination of packets with a routing header, after the victim's first address.
const BEHIND: Ipv6Addr = Ipv6Addr::new(0xfd00, 9, 0, 0, 0, 0, 1, 1);

/// Unused multicast groups.
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 9, 9, 9);
const GROUP6: Ipv6Addr = Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0, 9);

/// Record route with space for three addresses, and the end of the options.
const RECORD_ROUTE: [u8; 16] = [7, 15, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
/// A hop-by-hop header with router alert. Here and below the kernel fills in the first byte, the next header.
const ROUTER_ALERT: [u8; 8] = [0, 0, 5, 2, 0, 0, 1, 0];
/// A header of 16 bytes with one destination option, of an experimental type that receivers skip.
const EXPERIMENT: [u8; 16] = *b"\x00\x01\x1e\x0cexperimental";

/// Sends packets with every option and extension header that sockets and programs can add.
pub(crate) fn talk(sandbox: &Sandbox, recorder: &mut Recorder) -> Result<()> {
    for option in ["-R", "-T tsonly", "-T tsandaddr"] {
        sandbox.peer(|| run(&format!("ping -n -c 1 {option} {VICTIM_IPV4}")))?;
    }
    join_groups(sandbox, recorder)?;
    let mut connection = Connection::new(sandbox, VICTIM_IPV4.into(), |socket| {
        set(socket, libc::IPPROTO_IP, libc::IP_OPTIONS, &RECORD_ROUTE)
    })?;
    connection.echo(100)?;
    connection.close()?;
    extension_headers(sandbox)
}

/// The victim joins and leaves groups, and each time informs the routers twice.
fn join_groups(sandbox: &Sandbox, recorder: &mut Recorder) -> Result<()> {
    let mut told = |protocol, report: fn(&[u8]) -> bool| (0..2).try_for_each(|_| recorder.wait_for(protocol, report));
    let socket = sandbox.victim(|| udp::bind(VICTIM_IPV4))?;
    socket.join_multicast_v4(&GROUP, &VICTIM_IPV4)?;
    told("IGMP", is_igmp)?;
    drop(socket);
    told("IGMP", is_igmp)?;
    let socket = sandbox.victim(|| udp::bind(VICTIM_IPV6))?;
    let link = sandbox.victim(|| name_to_index(&socket, VICTIM_LINK))?;
    socket.join_multicast_v6(&GROUP6, link)?;
    told("MLD", is_mld)?;
    drop(socket);
    told("MLD", is_mld)
}

/// Sends each header alone, all of them, and all of them with fragments.
fn extension_headers(sandbox: &Sandbox) -> Result<()> {
    sandbox.victim(|| {
        wire::set("ipv6/conf/all/seg6_enabled", 1)?;
        wire::set(&format!("ipv6/conf/{VICTIM_LINK}/seg6_enabled"), 1)?;
        run(&format!("ip address add {BEHIND}/128 dev {VICTIM_LINK} nodad"))
    })?;
    let routing = routing_header();
    let hop_by_hop = (libc::IPV6_HOPOPTS, &ROUTER_ALERT[..]);
    let destination = (libc::IPV6_DSTOPTS, &EXPERIMENT[..]);
    let routed = (libc::IPV6_RTHDR, &routing[..]);
    let before_routing = (libc::IPV6_RTHDRDSTOPTS, &EXPERIMENT[..]);
    let all = [hop_by_hop, before_routing, routed, destination];
    for (headers, bytes) in [(&all[..1], 10), (&all[3..], 10), (&all[2..3], 10), (&all[..], 10), (&all[..], 3_000)] {
        let server = sandbox.victim(|| udp::bind(Ipv6Addr::UNSPECIFIED))?;
        let client = sandbox.peer(|| udp::bind(PEER_IPV6))?;
        for (option, header) in headers {
            set(&client, libc::IPPROTO_IPV6, *option, header)?;
        }
        udp::echo(&client, &server, BEHIND, bytes)?;
    }
    let mut connection = Connection::new(sandbox, VICTIM_IPV6.into(), |socket| {
        [hop_by_hop, destination]
            .iter()
            .try_for_each(|(option, header)| set(socket, libc::IPPROTO_IPV6, *option, header))
    })?;
    connection.echo(100)?;
    connection.close()
}

/// Returns a routing header of type 4 (segment routing) through the victim's first address. The kernel writes the
/// destination into the first segment of the list, which is the last hop.
fn routing_header() -> Vec<u8> {
    [&[0, 4, 4, 1, 1, 0, 0, 0], &[0; 16][..], &VICTIM_IPV6.octets()].concat()
}

fn is_igmp(frame: &[u8]) -> bool {
    frame.get(12..14) == Some(&[0x08, 0x00]) && frame.get(23) == Some(&2)
}

/// Returns whether it is a report of MLDv2: ICMPv6 of type 143 after a hop-by-hop header of 8 bytes.
fn is_mld(frame: &[u8]) -> bool {
    frame.get(12..14) == Some(&[0x86, 0xdd]) && frame.get(54) == Some(&58) && frame.get(62) == Some(&143)
}

/// Sets a socket option whose value is a list of bytes.
fn set(socket: &impl AsFd, level: i32, option: i32, value: &[u8]) -> Result<()> {
    let (socket, length) = (socket.as_fd().as_raw_fd(), value.len() as libc::socklen_t);
    // SAFETY: the value is readable for its length.
    let set = unsafe { libc::setsockopt(socket, level, option, value.as_ptr().cast(), length) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()).context(format!("cannot set option {option}")) }
}
