//! TCP sockets of this host.

use aya_ebpf::{
    bindings::{BPF_F_CURRENT_NETNS, bpf_sock, xdp_md},
    helpers::{bpf_sk_release, bpf_skc_lookup_tcp},
};

use crate::parse::connection::{Connection, IS_IPV6};

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
    look_up(ctx, connection, bytes(connection.kind & IS_IPV6 != 0))
}

/// Returns the same for a connection of so many bytes.
#[inline(always)]
pub(super) fn look_up(ctx: *mut xdp_md, connection: &Connection, size: u32) -> *mut bpf_sock {
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
