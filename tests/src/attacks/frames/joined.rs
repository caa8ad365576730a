//! Datagrams that the sender's host joins, so that a program in generic mode sees one packet.

use std::{
    io,
    net::UdpSocket,
    os::fd::AsRawFd as _,
    time::{Duration, Instant},
};

use crate::{
    PATIENCE, Ratelimit, Sandbox, VICTIM_IPV4, VICTIM_LINK,
    attacks::{
        row::{Packets, Row},
        stage::PORT,
    },
};

/// Datagrams of one send, their bytes, and sends.
const JOINED: u64 = 64;
const BYTES: usize = 500;
const SENDS: u64 = 161;
/// `UDP_SEGMENT` of `linux/udp.h`.
const SEGMENT: libc::c_int = 103;
/// The victim has all that will arrive once nothing comes for so long.
const SILENCE: Duration = Duration::from_millis(300);

pub(in crate::attacks) fn play() -> Row {
    let setup = "--mode generic --packets 100/s";
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let text = ratelimit.ok(&format!("attach {VICTIM_LINK} {setup}"));
    assert!(text.contains("joined packets count as one"), "attach does not warn: {text}");
    let server = sandbox.victim(|| UdpSocket::bind((VICTIM_IPV4, PORT))).expect("cannot listen");
    rustix::net::sockopt::set_socket_recv_buffer_size_force(&server, 64 << 20).expect("cannot take more memory");
    sandbox.peer(|| {
        let client = UdpSocket::bind(("0.0.0.0", 0)).expect("cannot open a socket");
        let bytes = BYTES as libc::c_int;
        let (value, length) = ((&raw const bytes).cast(), size_of_val(&bytes) as u32);
        // SAFETY: the option reads a number.
        let set = unsafe { libc::setsockopt(client.as_raw_fd(), libc::IPPROTO_UDP, SEGMENT, value, length) };
        assert_eq!(set, 0, "cannot join datagrams: {}", io::Error::last_os_error());
        for _ in 0..SENDS {
            client.send_to(&[0; BYTES * JOINED as usize], (VICTIM_IPV4, PORT)).expect("cannot send");
        }
    });
    let forged = Packets { offered: SENDS * JOINED, passed: received(&server) };
    // Each packet that passed was 64 datagrams: of the limit's hundred, far more arrive.
    assert!(forged.passed >= 50 * JOINED && forged.passed.is_multiple_of(JOINED), "{forged:?}");
    ratelimit.ok("detach --all");
    let attack = "datagrams that a host on the other end of a veth pair sends 64 at a time";
    Row { attack, setup, forged, may_pass: None, honest: Packets::default(), may_lose: 0 }
}

/// Returns how many datagrams arrive.
fn received(server: &UdpSocket) -> u64 {
    server.set_read_timeout(Some(SILENCE)).expect("cannot set a time");
    let (mut count, deadline) = (0, Instant::now() + PATIENCE);
    while server.recv(&mut [0; BYTES]).is_ok() {
        count += 1;
        assert!(Instant::now() < deadline, "datagrams arrive for ever");
    }
    count
}
