//! A UDP socket that tells when the kernel received each packet. So a receiver without a CPU for a moment changes no
//! measurement.

use std::{
    io,
    mem::MaybeUninit,
    net::{IpAddr, Ipv6Addr, UdpSocket},
    os::fd::AsRawFd as _,
    ptr,
    time::Duration,
};

/// A packet that was received.
#[derive(Debug, Clone, Copy)]
pub struct Stamped {
    /// Its sender.
    pub from: IpAddr,
    /// Time since 1970 at which the kernel received it.
    pub at: Duration,
}

/// A socket for IPv6 and IPv4 whose packets have timestamps.
#[derive(Debug)]
pub struct StampedSocket(UdpSocket);

impl StampedSocket {
    /// Asks for timestamps of all further packets of a socket.
    ///
    /// # Panics
    ///
    /// If the kernel refuses.
    #[must_use]
    pub fn new(socket: UdpSocket) -> Self {
        let on: libc::c_int = 1;
        // SAFETY: the value is an integer that outlives the call.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_TIMESTAMPNS,
                (&raw const on).cast(),
                size_of_val(&on) as libc::socklen_t,
            )
        };
        assert_eq!(result, 0, "no timestamps: {}", io::Error::last_os_error());
        Self(socket)
    }

    /// Receives a packet.
    ///
    /// # Errors
    ///
    /// Those of recvmsg(2), also if the socket's timeout has passed.
    ///
    /// # Panics
    ///
    /// If the packet has no timestamp.
    pub fn receive(&self) -> io::Result<Stamped> {
        let (mut bytes, mut control) = ([0u8; 64], [0u64; 16]);
        let mut from = MaybeUninit::<libc::sockaddr_in6>::zeroed();
        let mut data = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        // SAFETY: all zeroes are a valid `struct msghdr`.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_name = from.as_mut_ptr().cast();
        message.msg_namelen = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
        (message.msg_iov, message.msg_iovlen) = (&raw mut data, 1);
        (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), size_of_val(&control));
        // SAFETY: all buffers outlive the call, and have the lengths that the message names.
        if unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut message, 0) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has written the headers into `control`, and their length into the message.
        let header = unsafe { libc::CMSG_FIRSTHDR(&raw const message).as_ref() };
        let header = header.filter(|header| header.cmsg_type == libc::SCM_TIMESTAMPNS).expect("a timestamp");
        // SAFETY: a header of this type is followed by a `struct timespec`.
        let time: libc::timespec = unsafe { ptr::read_unaligned(libc::CMSG_DATA(header).cast()) };
        // SAFETY: any bytes are an address.
        let from = Ipv6Addr::from(unsafe { from.assume_init() }.sin6_addr.s6_addr);
        let at = Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32);
        Ok(Stamped { from: IpAddr::from(from).to_canonical(), at })
    }
}
