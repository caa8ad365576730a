//! Connections whose callers do not read their answers.

use std::{
    io::{self, ErrorKind, IoSlice},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// A connection that fails once its caller takes no bytes of an answer for this time.
pub(super) struct Unread<S> {
    stream: S,
    time: Duration,
    /// The end of the time, while a write waits.
    late: Option<Pin<Box<Sleep>>>,
}

impl<S> Unread<S> {
    pub(super) fn new(stream: S, time: Duration) -> Self {
        Self { stream, time, late: None }
    }

    /// Returns the result of a write, or an error if it has waited for too long.
    fn in_time<T>(&mut self, context: &mut Context<'_>, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.late = None;
            return done;
        }
        let time = self.time;
        let late = self.late.get_or_insert_with(|| Box::pin(sleep(time)));
        late.as_mut().poll(context).map(|()| Err(ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Unread<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Unread<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let done = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.in_time(context, done)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let done = Pin::new(&mut this.stream).poll_write_vectored(context, parts);
        this.in_time(context, done)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let done = Pin::new(&mut this.stream).poll_flush(context);
        this.in_time(context, done)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let done = Pin::new(&mut this.stream).poll_shutdown(context);
        this.in_time(context, done)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    const TIME: Duration = Duration::from_millis(50);

    fn block_on(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
    }

    #[test]
    fn a_caller_that_takes_no_bytes_for_the_time_ends_its_connection() {
        block_on(async {
            let (stream, _unread) = duplex(8);
            let error = Unread::new(stream, TIME).write_all(&[0; 9]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut);
        });
    }

    #[test]
    fn a_caller_that_reads_slowly_gets_everything() {
        block_on(async {
            let (stream, mut reader) = duplex(1);
            let mut stream = Unread::new(stream, TIME * 4);
            let writing = tokio::spawn(async move { stream.write_all(&[7; 10]).await });
            for _ in 0..10 {
                sleep(TIME).await;
                assert_eq!(reader.read_u8().await.unwrap(), 7);
            }
            writing.await.unwrap().unwrap();
        });
    }
}
