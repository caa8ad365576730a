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

    /// Reads all pending reports. Lost ones change nothing: there was one.
    pub fn clear(&self) {
        loop {
            match self.0.recv_from_full() {
                Ok(_) => {}
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(_) => return,
            }
        }
    }
}

impl AsRawFd for NetworkChanges {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
