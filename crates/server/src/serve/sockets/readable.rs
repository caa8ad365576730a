//! Control bytes in calls by HTTP/1. A client can put one into a header that a proxy repeats, and the library would refuse
//! the whole call.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Stands for a control byte. No text in UTF-8 has it.
pub(in crate::serve) const UNREADABLE: u8 = 0xff;

/// A connection from which [`UNREADABLE`] is read in place of control bytes other than tabs and ends of lines.
pub(super) struct Readable<S>(pub(super) S);

impl<S: AsyncRead + Unpin> AsyncRead for Readable<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let done = Pin::new(&mut self.get_mut().0).poll_read(context, into);
        let is_control = |byte: &&mut u8| byte.is_ascii_control() && !b"\t\r\n".contains(byte);
        into.filled_mut().iter_mut().skip(before).filter(is_control).for_each(|byte| *byte = UNREADABLE);
        done
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Readable<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().0).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().0).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_shutdown(context)
    }
}
