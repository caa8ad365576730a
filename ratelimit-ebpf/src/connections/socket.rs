//! Looks up the sockets of this host.
//!
//! A connection belongs to this host if it has a socket of its own and its local port has no other one that takes
//! packets from every sender. Such a port accepts connections.

use aya_ebpf::{
    bindings::{BPF_F_CURRENT_NETNS, bpf_sock, xdp_md},
    helpers::{bpf_sk_lookup_udp, bpf_sk_release, bpf_skc_lookup_tcp},
};

use crate::parse::connection::{Connection, IS_IPV6, IS_TCP};

/// Reads a field of a socket. The verifier allows one read, in the field's own size.
macro_rules! field {
    ($socket:ident, $($field:tt)+) => {
        // SAFETY: the kernel has given this socket, and checks the access.
        unsafe { (&raw const (*$socket).$($field)+).read_volatile() }
    };
}

/// Returns whether this host has opened the connection. Forgets its sender.
#[inline(never)]
pub(super) fn is_own(ctx: *mut xdp_md, connection: &mut Connection) -> bool {
    // Read once: the verifier must see that each kind of socket has its own path.
    let kind = connection.kind;
    let (is_tcp, is_ipv6) = (kind & IS_TCP != 0, kind & IS_IPV6 != 0);
    let size = bytes(is_ipv6);
    if is_tcp {
        has_tcp_socket(ctx, connection, size) && {
            forget_sender(connection, is_ipv6);
            is_closed(look_up_tcp_of(ctx, connection, size))
        }
    } else {
        has_udp_socket(ctx, connection, size, is_ipv6) && {
            forget_sender(connection, is_ipv6);
            is_closed(look_up_udp(ctx, connection, size))
        }
    }
}

/// Returns whether the connection has a TCP socket of its own.
#[inline(always)]
fn has_tcp_socket(ctx: *mut xdp_md, connection: &Connection, size: u32) -> bool {
    let socket = look_up_tcp_of(ctx, connection, size);
    if socket.is_null() {
        return false;
    }
    let state = state(socket);
    release(socket);
    is_opened(state)
}

/// Returns whether a UDP socket has exactly this peer. One without a peer takes packets from every sender.
#[inline(always)]
fn has_udp_socket(ctx: *mut xdp_md, connection: &Connection, size: u32, is_ipv6: bool) -> bool {
    let socket = look_up_udp(ctx, connection, size);
    if socket.is_null() {
        return false;
    }
    let [first, second, _, _, last] = connection.words;
    let port = field!(socket, dst_port);
    let (differs, ports) = if is_ipv6 {
        let ([a, b], [c, d]) = (halves(first), halves(second));
        let [e, f] = [field!(socket, dst_ip6[0]), field!(socket, dst_ip6[1])];
        let [g, h] = [field!(socket, dst_ip6[2]), field!(socket, dst_ip6[3])];
        (e ^ a | f ^ b | g ^ c | h ^ d, last)
    } else {
        (field!(socket, dst_ip4) ^ halves(first)[0], second)
    };
    release(socket);
    let [high, low, ..] = ports.to_ne_bytes();
    differs == 0 && port == u16::from_ne_bytes([high, low])
}

/// Returns the UDP socket of a connection, or a null pointer. It must be released.
#[inline(always)]
fn look_up_udp(ctx: *mut xdp_md, connection: &Connection, size: u32) -> *mut bpf_sock {
    // SAFETY: as above.
    unsafe { bpf_sk_lookup_udp(ctx.cast(), connection.words.as_ptr().cast_mut().cast(), size, HERE, 0) }
}

/// Returns whether no socket was found, and releases it otherwise.
#[inline(always)]
fn is_closed(socket: *mut bpf_sock) -> bool {
    if socket.is_null() {
        return true;
    }
    release(socket);
    false
}

/// Bytes of a connection's words that the kernel takes, by family.
const IPV4_BYTES: u32 = 12;
const IPV6_BYTES: u32 = 36;

/// Returns the bytes of a connection's words that the kernel takes.
#[inline(always)]
pub(super) const fn bytes(is_ipv6: bool) -> u32 {
    if is_ipv6 { IPV6_BYTES } else { IPV4_BYTES }
}

/// The network namespace of the interface.
pub(super) const HERE: u64 = (BPF_F_CURRENT_NETNS as i64).cast_unsigned();

/// States of a TCP socket that this host has not opened, or whose peer has not answered yet (`enum` in
/// `net/tcp_states.h`).
const SYN_RECEIVED: u32 = 3;
pub(crate) const LISTEN: u32 = 10;
const NEW_SYN_RECEIVED: u32 = 12;
/// States of a TCP socket whose peer has proven its address: all others, except before the answer to a first SYN.
const PROVEN: u32 = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 8 | 1 << 9 | 1 << 11;

/// Returns the state of a TCP socket that was found. The verifier allows one read.
#[inline(always)]
pub(crate) fn state(socket: *mut bpf_sock) -> u32 {
    // SAFETY: the kernel has given this socket, and checks the access.
    unsafe { (&raw const (*socket).state).read_volatile() }
}

/// Returns whether this host may have opened the connection of a socket in this state.
#[inline(always)]
pub(super) const fn is_opened(state: u32) -> bool {
    !matches!(state, SYN_RECEIVED | LISTEN | NEW_SYN_RECEIVED)
}

/// Returns whether a socket in this state has a peer that has answered.
#[inline(always)]
pub(crate) const fn is_proof(state: u32) -> bool {
    state < 32 && PROVEN >> state & 1 != 0
}

/// Returns the TCP socket of a connection, or a null pointer. It must be released.
#[inline(always)]
pub(crate) fn look_up_tcp(ctx: *mut xdp_md, connection: &Connection) -> *mut bpf_sock {
    look_up_tcp_of(ctx, connection, bytes(connection.kind & IS_IPV6 != 0))
}

/// Returns the same for a connection of so many bytes.
#[inline(always)]
pub(super) fn look_up_tcp_of(ctx: *mut xdp_md, connection: &Connection, size: u32) -> *mut bpf_sock {
    // SAFETY: the context is the one that the kernel has given, and there are as many bytes, which it only reads.
    unsafe { bpf_skc_lookup_tcp(ctx.cast(), connection.words.as_ptr().cast_mut().cast(), size, HERE, 0) }
}

/// Returns both halves of a word, in the order in which they lie in memory.
#[inline(always)]
pub(crate) const fn halves(word: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = word.to_ne_bytes();
    [u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h])]
}

/// Releases a socket that was found.
#[inline(always)]
pub(crate) fn release(socket: *mut bpf_sock) {
    // SAFETY: the socket was looked up, and is released once.
    unsafe { bpf_sk_release(socket.cast()) };
}

/// Sets the sender to an address that no connection has. Then only a socket that takes packets from every sender is
/// found. Of its port, three bits stay: they spread senders over sockets that share a port (`SO_REUSEPORT`).
#[inline(always)]
pub(crate) fn forget_sender(connection: &mut Connection, is_ipv6: bool) {
    let [first, second, third, fourth, last] = connection.words;
    connection.words = if is_ipv6 {
        [0, 0, third, fourth, without_sender(last)]
    } else {
        let [_, _, _, _, e, f, g, h] = first.to_ne_bytes();
        [u64::from_ne_bytes([0, 0, 0, 0, e, f, g, h]), without_sender(second), 0, 0, 0]
    };
}

/// Returns both ports with three bits of that of the sender.
#[inline(always)]
const fn without_sender(ports: u64) -> u64 {
    let [_, sender, c, d, ..] = ports.to_ne_bytes();
    u64::from_ne_bytes([0, sender & 7, c, d, 0, 0, 0, 0])
}
