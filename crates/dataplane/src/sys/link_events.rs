//! What the kernel reports of interfaces that come, go or change.

use std::os::fd::{AsRawFd, RawFd};

use netlink_packet_core::{DecodeError, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage, link::LinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

use super::interface::Interface;
use crate::Error;

/// One report.
#[derive(Debug)]
pub struct Change {
    /// The index of the interface.
    pub index: u32,
    /// What it is now. None if it was deleted or has left this network namespace.
    pub now: Option<Known>,
}

/// What is known of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Its name, escaped as in [`Interface`].
    pub name: String,
    /// The interface that it is a port or a member of, by index.
    pub controller: Option<u32>,
}

impl Known {
    /// Returns what is known of an interface.
    #[must_use]
    pub fn of(interface: Interface) -> Self {
        Self { name: interface.name, controller: interface.controller }
    }
}

/// A socket that becomes readable when an interface comes, goes or changes.
#[derive(Debug)]
pub struct Changes(Socket);

impl Changes {
    /// Watches this network namespace from now on.
    ///
    /// # Errors
    ///
    /// [`Error::Netlink`] if the kernel refuses.
    pub fn new() -> Result<Self, Error> {
        let open = || {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.set_non_blocking(true)?;
            socket.bind(&SocketAddr::new(0, libc::RTMGRP_LINK.cast_unsigned()))?;
            Ok(Self(socket))
        };
        open().map_err(|error: std::io::Error| Error::Netlink(error.to_string()))
    }

    /// Reads all pending reports. None if some were lost, because they came too fast.
    pub fn read(&self) -> Option<Vec<Change>> {
        let (mut changes, mut is_complete) = (Vec::new(), true);
        loop {
            match self.0.recv_from_full() {
                Ok((datagram, _)) => match change(&datagram) {
                    Ok(change) => changes.extend(change),
                    // Nobody knows what it reports.
                    Err(_) => is_complete = false,
                },
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => is_complete = false,
                Err(_) => return is_complete.then_some(changes),
            }
        }
    }
}

impl AsRawFd for Changes {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Returns what a message reports. A bridge sends messages of the same types for its ports.
fn change(datagram: &[u8]) -> Result<Option<Change>, DecodeError> {
    let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(datagram)?;
    let is_interface = |link: &LinkMessage| link.header.interface_family == AddressFamily::Unspec;
    Ok(match message.payload {
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) if is_interface(&link) => {
            Interface::of(&link).map(|interface| Change { index: interface.index, now: Some(Known::of(interface)) })
        }
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelLink(link)) if is_interface(&link) => {
            Some(Change { index: link.header.index, now: None })
        }
        _ => None,
    })
}
