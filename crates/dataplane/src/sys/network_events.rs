//! What the kernel reports of addresses and routes that change. A report says only that something did: the new state is read
//! anew.

use std::os::fd::{AsRawFd, RawFd};

use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

use crate::Error;

/// The groups of reports (include/uapi/linux/rtnetlink.h). An interface that comes without an address changes nothing.
const GROUPS: i32 =
    libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV4_ROUTE | libc::RTMGRP_IPV6_IFADDR | libc::RTMGRP_IPV6_ROUTE;

/// A socket that becomes readable when an address or a route changes.
#[derive(Debug)]
pub struct NetworkChanges(Socket);

impl NetworkChanges {
    /// Watches this network namespace from now on.
    ///
    /// # Errors
    ///
    /// [`Error::Netlink`] if the kernel refuses.
    pub fn new() -> Result<Self, Error> {
        let open = || {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.set_non_blocking(true)?;
            socket.bind(&SocketAddr::new(0, GROUPS.cast_unsigned()))?;
            Ok(Self(socket))
        };
        open().map_err(|error: std::io::Error| Error::Netlink(error.to_string()))
    }

    /// Reads pending reports, but not forever. Lost ones change nothing: there was one.
    pub fn clear(&self) -> Cleared {
        for number in 0..AT_ONCE {
            match self.0.recv_from_full() {
                Ok(_) => {}
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(_) => return Cleared { some: number != 0, all: true },
            }
        }
        Cleared { some: true, all: false }
    }
}

/// The most reports that are read at once. More can come meanwhile.
const AT_ONCE: usize = 1_024;

/// What was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cleared {
    /// Whether there was a report.
    pub some: bool,
    /// Whether none is left.
    pub all: bool,
}

impl AsRawFd for NetworkChanges {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
