//! Raw frames, sent out of an interface unchanged.

use std::{
    ffi::CString,
    io,
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
};

/// A socket that sends frames unchanged out of one interface.
#[derive(Debug)]
pub struct RawSocket {
    socket: OwnedFd,
    address: libc::sockaddr_ll,
}

impl RawSocket {
    /// Opens one for the interface `link` of the calling thread's network namespace.
    ///
    /// # Panics
    ///
    /// If the kernel refuses.
    #[must_use]
    pub fn of(link: &str) -> Self {
        let name = CString::new(link).expect("a name without zeroes");
        // SAFETY: the arguments are plain numbers.
        let socket = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0) };
        assert!(socket >= 0, "cannot open a packet socket: {}", io::Error::last_os_error());
        // SAFETY: the kernel has just created this descriptor for us.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        // SAFETY: all zeroes are a valid `struct sockaddr_ll`.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        // SAFETY: the name ends with a zero.
        address.sll_ifindex = unsafe { libc::if_nametoindex(name.as_ptr()) } as i32;
        Self { socket, address }
    }

    /// Sends a frame.
    ///
    /// # Panics
    ///
    /// If the interface does not exist or is down.
    pub fn send(&self, frame: &[u8]) {
        // SAFETY: the frame and the address are readable for their lengths.
        let sent = unsafe {
            libc::sendto(
                self.socket.as_raw_fd(),
                frame.as_ptr().cast(),
                frame.len(),
                0,
                (&raw const self.address).cast(),
                size_of_val(&self.address) as u32,
            )
        };
        assert_eq!(sent, frame.len() as isize, "{}", io::Error::last_os_error());
    }
}

/// Sends a frame `count` times out of the interface `link` of the calling thread's network namespace.
///
/// # Panics
///
/// If the interface does not exist or is down.
pub fn send_raw(link: &str, frame: &[u8], count: usize) {
    let socket = RawSocket::of(link);
    (0..count).for_each(|_| socket.send(frame));
}
