//! A denied source behind an interface without Ethernet headers.

use std::{
    fs::{File, OpenOptions},
    io::Write as _,
    os::fd::AsRawFd as _,
};

use crate::{
    Frame, Ratelimit, Sandbox,
    attacks::{
        row::{Packets, Row},
        stage::PORT,
    },
};

const LINK: &str = "tun0";
const PACKETS: u64 = 50;
/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;

/// `TUNSETIFF` of `linux/if_tun.h`.
const SET_INTERFACE: libc::Ioctl = 0x4004_54ca_u32 as libc::Ioctl;

/// `struct ifreq` with flags.
#[repr(C)]
struct Request {
    name: [u8; 16],
    flags: libc::c_short,
    padding: [u8; 22],
}

pub(in crate::attacks) fn play() -> Row {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let mut tunnel = sandbox.victim(create);
    sandbox.ip(&format!("link set {LINK} up"));
    ratelimit.ok(&format!("attach {LINK} --mode generic"));
    ratelimit.ok("deny add 10.9.0.0/16");
    let packet = &Frame::udp([10, 9, 0, 66], PORT).bytes()[ETHERNET..];
    for _ in 0..PACKETS {
        tunnel.write_all(packet).expect("the tunnel does not take packets");
    }
    let status = ratelimit.json("status");
    let count = |verdict: &str| status[verdict]["packets"].as_u64().expect("the status has no such count");
    let forged = Packets { offered: PACKETS, passed: count("passed") };
    assert_eq!(forged.passed + count("dropped"), PACKETS, "{status}");
    ratelimit.ok("detach --all");
    let attack = "packets of a denied source on a raw IP interface";
    let setup = "--mode generic; deny add 10.9.0.0/16";
    Row { attack, setup, forged, may_pass: Some(0), honest: Packets::default(), may_lose: 0 }
}

/// Returns the interface, which lives as long as the file is open.
fn create() -> File {
    let tunnel = OpenOptions::new().read(true).write(true).open("/dev/net/tun").expect("this kernel has no tunnels");
    let mut request =
        Request { name: [0; 16], flags: (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short, padding: [0; 22] };
    request.name[..LINK.len()].copy_from_slice(LINK.as_bytes());
    // SAFETY: the request is as large as a `struct ifreq`, which the kernel reads and writes.
    let outcome = unsafe { libc::ioctl(tunnel.as_raw_fd(), SET_INTERFACE, &raw mut request) };
    assert_eq!(outcome, 0, "cannot create a tunnel: {}", std::io::Error::last_os_error());
    tunnel
}
