//! Whether the network stack would forward a packet. A listener on all addresses is found for every destination. So
//! without this question, a router would answer in the name of the hosts behind it.

use aya_ebpf::{
    bindings::{BPF_FIB_LKUP_RET_FWD_DISABLED, BPF_FIB_LKUP_RET_NOT_FWDED, xdp_md},
    helpers::bpf_fib_lookup,
};
use ratelimit_common::identity::service::TCP;

use crate::{
    bpf::{settings, verifier::given},
    connections::socket::halves,
    parse::connection::{Connection, IS_IPV6},
};

// Families of addresses (`include/linux/socket.h`).
const IPV4: u8 = 2;
const IPV6: u8 = 10;

/// Returns 1 if the network stack would forward a packet of this connection, or drop it because of its route. Where the
/// interface forwards nothing, the stack takes only packets to addresses of this host.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
pub(super) fn is_forwarded(ctx: *mut xdp_md, connection: *const Connection) -> u32 {
    let (Some(connection), true) = (given(connection), settings::proves_tcp()) else { return 0 };
    // SAFETY: the context is the one that the kernel has given.
    let interface = unsafe { (*ctx).ingress_ifindex };
    let [first, second, third, fourth, _] = connection.words;
    let (family, source, destination) = if connection.kind & IS_IPV6 != 0 {
        (IPV6, [first, second], [third, fourth])
    } else {
        let [source, destination] = halves(first);
        (IPV4, [low(source), 0], [low(destination), 0])
    };
    // `struct bpf_fib_lookup` in words. Its length is that of the longest packet, so that the kernel looks for no
    // neighbour: every route refuses it.
    let start = u64::from_ne_bytes([family, TCP, 0, 0, 0, 0, 0xff, 0xff]);
    let mut asked = [start, low(interface), source[0], source[1], destination[0], destination[1], 0, 0];
    let length = size_of_val(&asked) as i32;
    // SAFETY: the kernel reads and writes as many bytes as the length says.
    let outcome = unsafe { bpf_fib_lookup(ctx.cast(), asked.as_mut_ptr().cast(), length, 0) };
    let is_for_this_host = outcome < 0
        || outcome == i64::from(BPF_FIB_LKUP_RET_NOT_FWDED)
        || outcome == i64::from(BPF_FIB_LKUP_RET_FWD_DISABLED);
    u32::from(!is_for_this_host)
}

/// Returns a word whose first half in memory is this one. The other one is zero.
#[inline(always)]
const fn low(half: u32) -> u64 {
    let [a, b, c, d] = half.to_ne_bytes();
    u64::from_ne_bytes([a, b, c, d, 0, 0, 0, 0])
}
