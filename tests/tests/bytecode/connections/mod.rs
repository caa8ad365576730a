//! Connections that the host has opened, with real sockets. The programs run in the victim's namespace.

mod cookies;
mod forwarded;
mod look_ups;
mod proven;
mod spared;
mod udp;

use std::{
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    os::fd::OwnedFd,
};

use etherparse::PacketBuilder;
use ratelimit_common::{
    limits::{
        limit::SECOND,
        policy::{Ban, Policy},
    },
    reason::Reason,
};
use ratelimit_dataplane::program::loader::Settings;
use ratelimit_tests::{Bytecode, MAC, Sandbox, per_second};
use rustix::{
    io::Errno,
    net::{AddressFamily, SocketFlags, SocketType, bind, connect, getsockname, socket_with},
};

const SYN: u8 = 1;
const ACK: u8 = 2;

/// Runs a test on a thread of the victim, whose sockets the program finds there.
fn on_the_victim(test: impl FnOnce(&Sandbox) + Send) {
    let sandbox = Sandbox::new();
    sandbox.victim(|| test(&sandbox));
}

/// Returns a program with a limit of one packet per second, whose first refusal bans a source for ten minutes.
fn load(settings: Settings) -> Bytecode {
    let mut bytecode = Bytecode::with(Settings { bans: true, ..settings });
    bytecode.set_time(SECOND);
    let ban = Ban { time: 600 * SECOND, most: 600 * SECOND, after: 1, reserved: 0 };
    bytecode.set("default", Policy { ban, ..per_second(1, 1) });
    bytecode
}

/// Returns a connection that the victim has opened, with the peer's end of it.
fn opened(sandbox: &Sandbox, peer: impl Into<IpAddr> + Send) -> (TcpStream, TcpStream) {
    let listener = sandbox.peer(|| TcpListener::bind((peer.into(), 0))).unwrap();
    let own = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (own, listener.accept().unwrap().0)
}

/// Returns a TCP packet with these flags.
fn segment(from: SocketAddr, to: SocketAddr, flags: u8) -> Vec<u8> {
    let step = match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => PacketBuilder::ethernet2(MAC, MAC).ipv4(from.octets(), to.octets(), 64),
        (IpAddr::V6(from), IpAddr::V6(to)) => PacketBuilder::ethernet2(MAC, MAC).ipv6(from.octets(), to.octets(), 64),
        _ => panic!("two families"),
    };
    let mut step = step.tcp(from.port(), to.port(), 1, 1_000);
    if flags & SYN != 0 {
        step = step.syn();
    }
    if flags & ACK != 0 {
        step = step.ack(1);
    }
    let mut bytes = Vec::new();
    step.write(&mut bytes, &[0; 20]).unwrap();
    bytes
}

/// Starts to open a connection from the victim, from this port if one is given. Returns the socket and its address.
fn opening(to: SocketAddr, port: Option<u16>) -> (OwnedFd, SocketAddr) {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::NONBLOCK, None).unwrap();
    if let Some(port) = port {
        bind(&socket, &SocketAddr::from(([0, 0, 0, 0], port))).unwrap();
    }
    assert_eq!(connect(&socket, &to), Err(Errno::INPROGRESS));
    let local = getsockname(&socket).unwrap().try_into().unwrap();
    (socket, local)
}

/// Returns a UDP packet.
fn datagram(from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let step = match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => PacketBuilder::ethernet2(MAC, MAC).ipv4(from.octets(), to.octets(), 64),
        (IpAddr::V6(from), IpAddr::V6(to)) => PacketBuilder::ethernet2(MAC, MAC).ipv6(from.octets(), to.octets(), 64),
        _ => panic!("two families"),
    };
    let mut bytes = Vec::new();
    step.udp(from.port(), to.port()).write(&mut bytes, &[0; 20]).unwrap();
    bytes
}

/// Returns an answer that the victim's socket waits for.
fn answer_to(own: &TcpStream) -> Vec<u8> {
    segment(own.peer_addr().unwrap(), own.local_addr().unwrap(), ACK)
}

/// Returns the same packet from another port of the peer, as an attacker would forge it.
fn forged(own: &TcpStream) -> Vec<u8> {
    let mut peer = own.peer_addr().unwrap();
    peer.set_port(peer.port() ^ 1);
    segment(peer, own.local_addr().unwrap(), ACK)
}

/// Sends until the limit has no room, and returns the reason of the next packet.
#[track_caller]
fn above_the_limit(bytecode: &Bytecode, frame: &[u8]) -> Reason {
    for _ in 0..3 {
        match bytecode.reason(frame) {
            Reason::WithinLimit => {}
            reason => return reason,
        }
    }
    panic!("the limit refuses nothing")
}

fn bans(bytecode: &Bytecode) -> usize {
    bytecode.tables.bans().unwrap().all().len()
}

fn looked_up(bytecode: &Bytecode) -> u64 {
    bytecode.cpus().iter().map(|cpu| cpu.own_looked_up).sum()
}

fn not_looked_up(bytecode: &Bytecode) -> u64 {
    bytecode.cpus().iter().map(|cpu| cpu.own_not_looked_up).sum()
}
