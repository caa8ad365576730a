//! A tun interface: its packets begin with the IP header, and a test writes those that arrive.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write as _},
    os::fd::AsRawFd as _,
};

use crate::Sandbox;

/// `TUNSETIFF`
const SET_INTERFACE: libc::c_ulong = 0x4004_54ca;
/// `TUNSETLINK`
const SET_LINK_TYPE: libc::c_ulong = 0x4004_54cd;
/// `IFF_TUN | IFF_NO_PI`
const PLAIN: u16 = 0x1001;
/// `IFF_TUN`: the type of its content is in front of each packet.
const TYPED: u16 = 0x0001;

/// `struct ifreq` with `ifr_flags`.
#[repr(C)]
struct Request {
    name: [u8; 16],
    flags: u16,
    padding: [u8; 22],
}

/// A tun interface of the victim. It ends when it is dropped. If a child of another test is just starting then, it ends
/// a moment later.
#[derive(Debug)]
pub struct Tun(File);

impl Tun {
    /// Creates the interface, and switches it on.
    ///
    /// # Panics
    ///
    /// If the name is taken.
    #[must_use]
    pub fn new(sandbox: &Sandbox, name: &str) -> Self {
        let tun = Self::down(sandbox, name);
        sandbox.ip(&format!("link set {name} up"));
        tun
    }

    /// Creates the interface.
    ///
    /// # Panics
    ///
    /// If the name is taken.
    #[must_use]
    pub fn down(sandbox: &Sandbox, name: &str) -> Self {
        Self::create(sandbox, name, PLAIN)
    }

    /// Creates the interface, and switches it on. It believes [`Self::receive_typed`] what packets are, as GRE does.
    ///
    /// # Panics
    ///
    /// If the name is taken.
    #[must_use]
    pub fn typed(sandbox: &Sandbox, name: &str) -> Self {
        let tun = Self::create(sandbox, name, TYPED);
        sandbox.ip(&format!("link set {name} up"));
        tun
    }

    fn create(sandbox: &Sandbox, name: &str, flags: u16) -> Self {
        sandbox.victim(|| {
            let file = OpenOptions::new().read(true).write(true).open("/dev/net/tun");
            let file = file.expect("cannot open /dev/net/tun");
            let mut request = Request { name: [0; 16], flags, padding: [0; 22] };
            request.name[..name.len()].copy_from_slice(name.as_bytes());
            // SAFETY: the kernel reads and writes a `struct ifreq`, which outlives the call.
            let made = unsafe { libc::ioctl(file.as_raw_fd(), SET_INTERFACE, &raw mut request) };
            assert_eq!(made, 0, "cannot create {name}: {}", io::Error::last_os_error());
            Self(file)
        })
    }

    /// Claims to be an interface of another link type. It must be switched off.
    ///
    /// # Panics
    ///
    /// If the kernel refuses.
    pub fn set_link_type(&self, number: u16) {
        // SAFETY: the argument is a number.
        let set = unsafe { libc::ioctl(self.0.as_raw_fd(), SET_LINK_TYPE, libc::c_long::from(number)) };
        assert_eq!(set, 0, "cannot set the link type: {}", io::Error::last_os_error());
    }

    /// Lets a packet arrive `count` times.
    ///
    /// # Panics
    ///
    /// If the kernel refuses it.
    pub fn receive(&self, packet: &[u8], count: usize) {
        for _ in 0..count {
            (&self.0).write_all(packet).expect("the interface takes no packet");
        }
    }

    /// Lets a packet of this Ethernet type arrive `count` times at an interface that is [`Self::typed`].
    ///
    /// # Panics
    ///
    /// If the kernel refuses it.
    pub fn receive_typed(&self, ether_type: u16, packet: &[u8], count: usize) {
        self.receive(&[&[0, 0][..], &ether_type.to_be_bytes(), packet].concat(), count);
    }
}
