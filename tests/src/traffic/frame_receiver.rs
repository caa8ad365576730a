//! A receiver of all frames that arrive at the peer.

use std::{
    io,
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
};

use crate::{PEER_LINK, Sandbox};

/// A packet socket of the peer.
#[derive(Debug)]
pub struct FrameReceiver(OwnedFd);

impl FrameReceiver {
    /// Starts to receive.
    ///
    /// # Panics
    ///
    /// If the kernel refuses.
    #[must_use]
    pub fn at_the_peer(sandbox: &Sandbox) -> Self {
        sandbox.peer(|| {
            let protocol = (libc::ETH_P_ALL as u16).to_be();
            // SAFETY: the arguments are plain numbers.
            let socket =
                unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_NONBLOCK, protocol.into()) };
            assert!(socket >= 0, "cannot open a packet socket: {}", io::Error::last_os_error());
            // SAFETY: the kernel has just created this descriptor for us.
            let socket = unsafe { OwnedFd::from_raw_fd(socket) };
            rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 16 << 20)
                .expect("cannot take more memory");
            // SAFETY: all zeroes are a valid `struct sockaddr_ll`.
            let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_protocol = protocol;
            let link = rustix::net::netdevice::name_to_index(&socket, PEER_LINK).expect("the peer has no link");
            address.sll_ifindex = link.cast_signed();
            let length = size_of_val(&address) as u32;
            // SAFETY: the address is readable for its length.
            let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
            assert_eq!(bound, 0, "cannot listen: {}", io::Error::last_os_error());
            Self(socket)
        })
    }

    /// Returns the next frame, or nothing if none has arrived. Frames that the peer sends are left out.
    ///
    /// # Panics
    ///
    /// If the socket fails.
    #[must_use]
    pub fn next(&self) -> Option<Vec<u8>> {
        let mut frame = vec![0; 65_536];
        loop {
            // SAFETY: all zeroes are a valid `struct sockaddr_ll`.
            let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
            let mut length = size_of_val(&address) as u32;
            // SAFETY: the frame, the address and its length are writable for their lengths.
            let received = unsafe {
                libc::recvfrom(
                    self.0.as_raw_fd(),
                    frame.as_mut_ptr().cast(),
                    frame.len(),
                    0,
                    (&raw mut address).cast(),
                    &raw mut length,
                )
            };
            match usize::try_from(received) {
                Ok(_) if address.sll_pkttype == libc::PACKET_OUTGOING => {}
                Ok(received) => {
                    frame.truncate(received);
                    return Some(frame);
                }
                Err(_) => {
                    let error = io::Error::last_os_error();
                    assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "cannot listen: {error}");
                    return None;
                }
            }
        }
    }
}
