//! Connections whose callers do not read their answers.

use std::{
    future::poll_fn,
    io::{self, ErrorKind, IoSlice},
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

use super::waiting::{WaitingWrite, WaitingWrites};

/// The bytes that a connection reads before answers are written, and others have their turn. HTTP/2 can have 400 calls in
/// them.
const OF_TURN: usize = 4 << 10;

/// The bytes that a connection may still read before others have their turn.
#[derive(Debug, Clone, Default)]
pub(super) struct Turn(Arc<AtomicUsize>);

impl Turn {
    /// Polls the future of the connection. Each time is a turn.
    pub(super) async fn each<F: Future>(self, connection: F) -> F::Output {
        let mut connection = pin!(connection);
        poll_fn(|context| {
            self.0.store(OF_TURN, Ordering::Relaxed);
            connection.as_mut().poll(context)
        })
        .await
    }
}

/// A connection that fails once its caller takes no bytes of an answer for this time. While a write waits, nothing is read,
/// so that no further answers pile up.
pub(super) struct Unread<S> {
    stream: S,
    time: Duration,
    waiting: WaitingWrites,
    /// A write that waits.
    late: Option<Late>,
    /// Who wants to read once the write goes on.
    reader: Option<Waker>,
    turn: Turn,
}

/// A write that waits.
struct Late {
    /// The end of its time.
    end: Pin<Box<Sleep>>,
    wait: WaitingWrite,
}

impl<S> Unread<S> {
    pub(super) fn new(stream: S, time: Duration, waiting: WaitingWrites, turn: Turn) -> Self {
        Self { stream, time, waiting, late: None, reader: None, turn }
    }

    /// Returns the result of a write, or an error if it has waited for too long, or longer than too many others.
    fn in_time<T>(&mut self, context: &mut Context<'_>, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.late = None;
            self.reader.take().into_iter().for_each(Waker::wake);
            return done;
        }
        let late =
            self.late.get_or_insert_with(|| Late { end: Box::pin(sleep(self.time)), wait: self.waiting.begin() });
        let is_over = late.end.as_mut().poll(context).is_ready() || Pin::new(&mut late.wait).poll(context).is_ready();
        if is_over { Poll::Ready(Err(ErrorKind::TimedOut.into())) } else { Poll::Pending }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Unread<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.late.is_some() {
            this.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        let left = this.turn.0.load(Ordering::Relaxed);
        if left == 0 {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let left = left.min(into.remaining());
        let mut part = ReadBuf::new(into.initialize_unfilled_to(left));
        let done = Pin::new(&mut this.stream).poll_read(context, &mut part);
        let count = part.filled().len();
        into.advance(count);
        this.turn.0.fetch_sub(count, Ordering::Relaxed);
        done
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
            let error = Unread::new(stream, TIME, WaitingWrites::default(), Turn::default())
                .write_all(&[0; 9])
                .await
                .unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut);
        });
    }

    #[test]
    fn a_caller_that_reads_slowly_gets_everything() {
        block_on(async {
            let (stream, mut reader) = duplex(1);
            let mut stream = Unread::new(stream, TIME * 4, WaitingWrites::default(), Turn::default());
            let writing = tokio::spawn(async move { stream.write_all(&[7; 10]).await });
            for _ in 0..10 {
                sleep(TIME).await;
                assert_eq!(reader.read_u8().await.unwrap(), 7);
            }
            writing.await.unwrap().unwrap();
        });
    }

    #[test]
    fn nothing_is_read_while_a_write_waits_and_the_reader_goes_on_after_it() {
        block_on(async {
            let (stream, mut other) = duplex(4);
            let turn = Turn::default();
            let stream = Unread::new(stream, TIME * 100, WaitingWrites::default(), turn.clone());
            let (mut reads, mut writes) = tokio::io::split(stream);
            other.write_all(&[1; 4]).await.unwrap();
            let writing = tokio::spawn(async move { writes.write_all(&[7; 9]).await.map(|()| writes) });
            // The write begins first, and waits.
            tokio::task::yield_now().await;
            let reading = tokio::spawn(turn.each(async move { reads.read_u8().await }));
            sleep(TIME).await;
            assert!(!reading.is_finished());
            other.read_exact(&mut [0; 9]).await.unwrap();
            assert_eq!(reading.await.unwrap().unwrap(), 1);
            writing.await.unwrap().unwrap();
        });
    }

    #[test]
    fn a_caller_that_sends_without_a_pause_leaves_turns_to_others() {
        block_on(async {
            let (stream, mut other) = duplex(4 * OF_TURN);
            let turn = Turn::default();
            let mut stream = Unread::new(stream, TIME, WaitingWrites::default(), turn.clone());
            other.write_all(&vec![1; 2 * OF_TURN]).await.unwrap();
            let (mut bytes, mut turns) = (vec![0; 2 * OF_TURN], 0);
            let mut into = ReadBuf::new(&mut bytes);
            let reading = poll_fn(|context| {
                turns += 1;
                while Pin::new(&mut stream).poll_read(context, &mut into).is_ready() {
                    if into.remaining() == 0 {
                        return Poll::Ready(());
                    }
                }
                Poll::Pending
            });
            turn.each(reading).await;
            assert_eq!(turns, 2);
        });
    }
}
