//! A receiver of all frames that arrive at the peer.

use std::{
    io, mem,
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
            // Many frames of the peer would leave no room for others.
            for option in [libc::PACKET_AUXDATA, libc::PACKET_IGNORE_OUTGOING] {
                let on: libc::c_int = 1;
                let (on, length) = ((&raw const on).cast(), size_of_val(&on) as u32);
                // SAFETY: both options read a number.
                let set = unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_PACKET, option, on, length) };
                assert_eq!(set, 0, "cannot set an option: {}", io::Error::last_os_error());
            }
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

    /// Returns the next frame as it was on the wire, or nothing if none has arrived. Frames that the peer sends are left
    /// out.
    ///
    /// # Panics
    ///
    /// If the socket fails, or a frame is without its checksum: its sender has left it to a network card, or the peer has
    /// joined packets.
    #[must_use]
    pub fn next(&self) -> Option<Vec<u8>> {
        let mut frame = vec![0; 65_536];
        let Some((received, told)) = self.receive(&mut frame) else {
            let error = io::Error::last_os_error();
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "cannot listen: {error}");
            return None;
        };
        frame.truncate(received);
        let told = told.expect("the kernel tells nothing of a frame");
        assert_eq!(told.tp_status & libc::TP_STATUS_CSUMNOTREADY, 0, "a frame without a checksum: {frame:x?}");
        // The kernel has taken the outermost tag out of the frame.
        if told.tp_status & libc::TP_STATUS_VLAN_VALID != 0 {
            frame.splice(12..12, [told.tp_vlan_tpid, told.tp_vlan_tci].map(u16::to_be_bytes).concat());
        }
        Some(frame)
    }

    /// Receives a frame. Returns its length, and what the kernel tells of it.
    fn receive(&self, frame: &mut [u8]) -> Option<(usize, Option<libc::tpacket_auxdata>)> {
        // Long words, since control messages are aligned.
        let mut control = [0_u64; 16];
        // SAFETY: all zeroes are valid.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        let mut part = libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() };
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), size_of_val(&control));
        // SAFETY: everything that the message points to is writable for its length.
        let received = unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut message, 0) };
        let received = usize::try_from(received).ok()?;
        // SAFETY: the kernel has written whole control messages, and the first is as long as its type.
        let told = unsafe {
            let first = libc::CMSG_FIRSTHDR(&raw const message);
            let is_there = !first.is_null() && (*first).cmsg_type == libc::PACKET_AUXDATA;
            is_there.then(|| libc::CMSG_DATA(first).cast::<libc::tpacket_auxdata>().read_unaligned())
        };
        Some((received, told))
    }
}
