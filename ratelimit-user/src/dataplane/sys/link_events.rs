//! Events of interfaces that come, go or change.

use std::os::fd::{AsRawFd, RawFd};

use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

use crate::dataplane::Error;

/// A socket that becomes readable when an interface comes, goes or changes.
#[derive(Debug)]
pub(crate) struct Changes(Socket);

impl Changes {
    /// Watches this network namespace from now on.
    ///
    /// # Errors
    ///
    /// [`Error::Netlink`] if the kernel refuses.
    pub(crate) fn new() -> Result<Self, Error> {
        let open = || {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.set_non_blocking(true)?;
            socket.bind(&SocketAddr::new(0, libc::RTMGRP_LINK.cast_unsigned()))?;
            Ok(Self(socket))
        };
        open().map_err(|error: std::io::Error| Error::Netlink(error.to_string()))
    }

    /// Reads all pending events, and returns the indices of deleted interfaces.
    pub(crate) fn read(&self) -> Vec<u32> {
        let mut gone = Vec::new();
        loop {
            match self.0.recv_from_full() {
                Ok((datagram, _)) => gone.extend(deleted(&datagram)),
                // The caller lists all interfaces, so lost events do not matter.
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

/// Returns the interface that a message reports as deleted. A bridge sends the same message for a port that leaves it.
fn deleted(datagram: &[u8]) -> Option<u32> {
    let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(datagram).ok()?;
    match message.payload {
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelLink(link)) => {
            (link.header.interface_family == AddressFamily::Unspec).then_some(link.header.index)
        }
        _ => None,
    }
}
