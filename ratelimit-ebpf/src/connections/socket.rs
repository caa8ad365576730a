//! Looks up the sockets of this host.
//!
//! A connection belongs to this host if it has a socket of its own and its local port has no other one that takes
//! packets from every sender. Such a port accepts connections.

use aya_ebpf::{
    bindings::{bpf_sock, xdp_md},
    helpers::bpf_sk_lookup_udp,
};

use crate::{
    connections::{
        sender,
        tcp::{self, HERE, bytes, halves, release},
    },
    parse::connection::{Connection, IS_IPV6, IS_TCP},
};

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
            sender::forget(connection, is_ipv6);
            is_closed(tcp::look_up(ctx, connection, size))
        }
    } else {
        has_udp_socket(ctx, connection, size, is_ipv6) && {
            sender::forget(connection, is_ipv6);
            is_closed(look_up_udp(ctx, connection, size))
        }
    }
}

/// Returns whether the connection has a TCP socket of its own.
#[inline(always)]
fn has_tcp_socket(ctx: *mut xdp_md, connection: &Connection, size: u32) -> bool {
    let socket = tcp::look_up(ctx, connection, size);
    if socket.is_null() {
        return false;
    }
    let state = tcp::state(socket);
    release(socket);
    tcp::is_opened(state)
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
