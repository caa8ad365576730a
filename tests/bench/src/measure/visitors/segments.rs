//! TCP segments of a connection, as the kernel counts them at either end.

use std::{io, net::TcpStream, os::fd::AsRawFd as _};

/// Offsets in the kernel's `struct tcp_info` (Linux 4.2).
const SENT: usize = 136;
const RECEIVED: usize = 140;
/// Bytes of it that are read.
const LENGTH: usize = 144;

/// What one end has sent and received, with repetitions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segments {
    pub(super) sent: u32,
    pub(super) received: u32,
}

impl Segments {
    /// Reads the counters of a socket.
    pub(super) fn of(stream: &TcpStream) -> io::Result<Self> {
        let (mut info, mut length) = ([0_u8; LENGTH], LENGTH as libc::socklen_t);
        // SAFETY: the kernel writes at most `length` bytes to `info`, and the length. Both outlive the call.
        let outcome = unsafe {
            libc::getsockopt(
                stream.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                info.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        if outcome != 0 {
            return Err(io::Error::last_os_error());
        }
        let at = |offset: usize| info[offset..].first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
        match (at(SENT), at(RECEIVED)) {
            (Some(sent), Some(received)) if length as usize >= LENGTH => Ok(Self { sent, received }),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}
