//! What the kernel tells of interfaces as they come, go and change.

use std::os::fd::{AsRawFd, RawFd};

use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

use crate::dataplane::Error;

/// The group of interfaces, RTMGRP_LINK (include/uapi/linux/rtnetlink.h).
const GROUP: u32 = 1;

/// A socket that becomes readable when an interface has come, gone or changed.
#[derive(Debug)]
pub(crate) struct Changes(Socket);

impl Changes {
    /// Of this network namespace, from now on.
    ///
    /// # Errors
    ///
    /// [`Error::Netlink`] where the kernel refuses.
    pub(crate) fn new() -> Result<Self, Error> {
        let open = || {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.set_non_blocking(true)?;
            socket.bind(&SocketAddr::new(0, GROUP))?;
            Ok(Self(socket))
        };
        open().map_err(|error: std::io::Error| Error::Netlink(error.to_string()))
    }

    /// Reads all that there is, and returns the indices of interfaces that have gone.
    pub(crate) fn read(&self) -> Vec<u32> {
        let mut gone = Vec::new();
        loop {
            match self.0.recv_from_full() {
                Ok((datagram, _)) => gone.extend(deleted(&datagram)),
                // What the kernel had no room for shows when one looks.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(_) => return gone,
            }
        }
    }
}

impl AsRawFd for Changes {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// The interface that a message says has gone. A bridge says the same of one that has only left it.
fn deleted(datagram: &[u8]) -> Option<u32> {
    let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(datagram).ok()?;
    match message.payload {
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelLink(link)) => {
            (link.header.interface_family == AddressFamily::Unspec).then_some(link.header.index)
        }
        _ => None,
    }
}
