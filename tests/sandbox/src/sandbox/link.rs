//! The wire between the two namespaces: a veth pair without neighbour discovery and without traffic of its own.

use std::{process::Command, ptr};

use rustix::{
    ioctl::{Updater, ioctl},
    net::{AddressFamily, SocketType, socket},
};

use super::{kernel::online_cpus, process, queues};
use crate::{MAC, Namespace, PEER_IPV4, PEER_IPV6, PEER_LINK, VICTIM_IPV4, VICTIM_IPV6, VICTIM_LINK};

/// Connects both namespaces by a veth pair with addresses.
pub(crate) fn connect(victim: &Namespace, peer: &Namespace) {
    connect_without_addresses(victim, peer, VICTIM_LINK, PEER_LINK);
    for (namespace, link, ipv4, ipv6) in [
        // Alone, because the victim denies nothing in its own network.
        (victim, VICTIM_LINK, format!("{VICTIM_IPV4}/32"), format!("{VICTIM_IPV6}/128")),
        (peer, PEER_LINK, format!("{PEER_IPV4}/16"), format!("{PEER_IPV6}/32")),
    ] {
        ip(namespace, &format!("address add {ipv4} dev {link}"));
        ip(namespace, &format!("address add {ipv6} dev {link} nodad"));
        ip(namespace, "link set lo up");
        // Every source address is reachable.
        ip(namespace, &format!("route add default dev {link}"));
        ip(namespace, &format!("-6 route add default dev {link}"));
    }
    if online_cpus() > 1 {
        queues::keep_sockets_apart(peer);
    }
}

/// Connects both namespaces by a veth pair with these names, which is up.
///
/// # Panics
///
/// If the system refuses.
pub fn connect_without_addresses(victim: &Namespace, peer: &Namespace, victim_link: &str, peer_link: &str) {
    // With a receive queue per CPU, every sender drains its own packets, and the wire loses none.
    let cpus = online_cpus();
    let queues = format!("numtxqueues {cpus} numrxqueues {cpus}");
    ip(victim, &format!("link add {victim_link} {queues} type veth peer name {peer_link} {queues}"));
    ip(victim, &format!("link set {peer_link} netns {}", peer.network_path()));
    for (namespace, link) in [(victim, victim_link), (peer, peer_link)] {
        let [a, b, c, d, e, f] = MAC;
        // Without ARP the kernel sends every packet to its own link address. Both ends have the same one, so packets
        // arrive.
        let address = format!("address {a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x} arp off");
        ip(namespace, &format!("link set {link} {address} addrgenmode none"));
        namespace.run(|| receive_redirected(link));
        ip(namespace, &format!("link set {link} up"));
    }
}

/// Runs `ip` in a namespace and returns its output.
///
/// # Panics
///
/// If it fails.
pub fn ip(namespace: &Namespace, words: &str) -> String {
    let output = process::output(namespace, Command::new("ip").args(words.split_whitespace()));
    assert!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("ip prints UTF-8")
}

/// `ETHTOOL_SGRO`
const SET_GRO: u32 = 0x2c;

/// Lets a veth receive packets that XDP programs of its peer send. It needs either a program or GRO, so this enables
/// GRO.
fn receive_redirected(link: &str) {
    set_offload(link, SET_GRO, 1);
}

/// Makes the kernel compute all checksums of packets that it sends through a link of the calling thread's network
/// namespace. Otherwise a veth leaves them out.
///
/// # Panics
///
/// If the kernel refuses.
pub fn compute_checksums(link: &str) {
    /// `ETHTOOL_STXCSUM`
    const SET_SUM: u32 = 0x17;
    set_offload(link, SET_SUM, 0);
}

/// Makes the kernel join no packets that arrive at a link of the calling thread's network namespace, which has an XDP
/// program. Joined packets have other checksums.
///
/// # Panics
///
/// If the kernel refuses.
pub fn join_no_packets(link: &str) {
    set_offload(link, SET_GRO, 0);
}

/// Switches one of the tasks of a link on or off.
fn set_offload(link: &str, command: u32, data: u32) {
    /// `SIOCETHTOOL`
    const ETHTOOL: rustix::ioctl::Opcode = 0x8946;

    /// `struct ifreq` with `ifr_data`.
    #[repr(C)]
    struct Request {
        name: [u8; 16],
        value: *mut Value,
        padding: [u8; 16],
    }
    /// `struct ethtool_value`.
    #[repr(C)]
    struct Value {
        command: u32,
        data: u32,
    }

    let mut value = Value { command, data };
    let mut request = Request { name: [0; 16], value: ptr::from_mut(&mut value), padding: [0; 16] };
    request.name[..link.len()].copy_from_slice(link.as_bytes());
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None).expect("cannot open a socket");
    // SAFETY: the command reads a `struct ifreq` that points to a `struct ethtool_value`, and both outlive the call.
    unsafe { ioctl(&socket, Updater::<ETHTOOL, Request>::new(&mut request)) }.expect("cannot switch an offload");
}
