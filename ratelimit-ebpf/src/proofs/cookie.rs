//! The kernel's SYN cookies (RFC 4987, section 3.6). The network stack accepts what is made here, and makes the connection.

use aya_ebpf::{
    bindings::{bpf_sock, xdp_md},
    helpers::{bpf_tcp_check_syncookie, bpf_tcp_gen_syncookie},
    programs::XdpContext,
};

use crate::{
    bpf::settings,
    connections::socket::{self, LISTEN, halves},
    packet::frame::Packet,
    parse::connection::{Connection, IS_IPV6},
    proofs::maximum_segment,
    reply::checksum::{Words, word, words},
};

/// Bits of the offset of a TCP header, for the verifier.
const OFFSETS: usize = 0xff;
/// Words of a TCP header with an option of four bytes.
const WORDS: u8 = 6;

/// Headers as the kernel's functions expect them: an IP header of either family with its addresses, and a TCP header
/// with one option.
struct Headers {
    ip: Words<10>,
    tcp: Words<6>,
}

impl Headers {
    /// Reads those of a packet. Of the TCP options, only the maximum segment size of a SYN counts.
    #[inline(always)]
    fn read(packet: &Packet, connection: &Connection, is_syn: bool) -> Option<Self> {
        let begin = connection.begin as usize & OFFSETS;
        let [ports, sequence, acknowledgement, control, _] = words(packet, begin)?;
        let [length, flags, high, low] = control.to_ne_bytes();
        let option = if is_syn { maximum_segment::option(packet, begin, length >> 4)? } else { maximum_segment::NONE };
        let control = word([WORDS << 4, flags, high, low]);
        let tcp = [ports, sequence, acknowledgement, control, 0, option];
        let [[a, b], [c, d], [e, f], [g, h], _] = connection.words.map(halves);
        let ip = if connection.kind & IS_IPV6 != 0 {
            [word([0x60, 0, 0, 0]), 0, a, b, c, d, e, f, g, h]
        } else {
            [word([0x45, 0, 0, 0]), 0, 0, a, b, 0, 0, 0, 0, 0]
        };
        Some(Self { ip, tcp })
    }
}

/// Returns the cookie for a first SYN in the lower 32 bits. Negative if its port has no listener, or the kernel makes no
/// cookies. Forgets the sender: a search for its connection would read another line of memory for each forged address.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
pub(super) fn generate_cookie(ctx: *mut xdp_md, connection: *mut Connection) -> i64 {
    let mut cookie = -1;
    if !settings::proves_tcp() {
        return cookie;
    }
    // SAFETY: the caller passes an exclusive reference, which the verifier takes for one that may be null.
    let Some(connection) = (unsafe { connection.as_mut() }) else { return cookie };
    let packet = Packet::of(&XdpContext::new(ctx));
    let Some(mut headers) = Headers::read(&packet, connection, true) else { return cookie };
    socket::forget_sender(connection, connection.kind & IS_IPV6 != 0);
    let listener = socket::look_up_tcp(ctx, connection);
    if listener.is_null() {
        return cookie;
    }
    if socket::state(listener) == LISTEN {
        let Headers { ip, tcp } = &mut headers;
        let (ip_length, tcp_length) = (size_of_val(ip) as u32, size_of_val(tcp) as u32);
        // SAFETY: the listener is not released yet, and the kernel only reads both headers.
        cookie = unsafe {
            let (ip, tcp) = (ip.as_mut_ptr().cast(), tcp.as_mut_ptr().cast());
            bpf_tcp_gen_syncookie(listener.cast(), ip, ip_length, tcp, tcp_length)
        };
    }
    socket::release(listener);
    cookie
}

/// Returns whether a packet acknowledges a good cookie of this listener.
#[inline(always)]
pub(super) fn is_good(ctx: *mut xdp_md, listener: *mut bpf_sock, connection: &Connection) -> bool {
    let packet = Packet::of(&XdpContext::new(ctx));
    let Some(mut headers) = Headers::read(&packet, connection, false) else { return false };
    let Headers { ip, tcp } = &mut headers;
    let (ip_length, tcp_length) = (size_of_val(ip) as u32, size_of_val(tcp) as u32);
    // SAFETY: the listener is not released yet, and the kernel only reads both headers.
    let outcome = unsafe {
        let (ip, tcp) = (ip.as_mut_ptr().cast(), tcp.as_mut_ptr().cast());
        bpf_tcp_check_syncookie(listener.cast(), ip, ip_length, tcp, tcp_length)
    };
    outcome == 0
}
