//! Connections of readers: each line is a question, and gets a line as its answer.

use std::{slice, sync::Arc, time::Duration};

use ratelimit_protocol::view::LINE;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{UnixListener, UnixStream, unix::OwnedWriteHalf},
    time::timeout,
};

use super::reader::Reader;
use crate::controller::connections;

/// Connections at a time. Further ones wait.
const CONNECTIONS: usize = 8;
/// How long a connection may be silent, and how long an answer may take to be read.
const IDLE: Duration = Duration::from_secs(30);

/// Answers until it is aborted.
pub(super) async fn serve(listener: UnixListener, reader: Arc<Reader>) {
    connections::serve(listener, CONNECTIONS, |stream| answer(stream, Arc::clone(&reader))).await;
}

/// Answers the lines of one connection.
async fn answer(stream: UnixStream, reader: Arc<Reader>) {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read);
    loop {
        let mut line = Vec::new();
        let read = timeout(IDLE, (&mut lines).take(LINE as u64 + 1).read_until(b'\n', &mut line)).await;
        let Ok(Ok(1..)) = read else { return };
        // The rest of a line that is too long is no question.
        if line.pop_if(|byte| *byte == b'\n').is_none() {
            return;
        }
        let Some(turn) = reader.turn().await else { return };
        // Nobody waits for this answer any more, and others wait for the turn.
        if is_closed(&write) {
            return;
        }
        let Some(mut text) = reader.line(line, turn).await else { return };
        text.push(b'\n');
        if !matches!(timeout(IDLE, write.write_all(&text)).await, Ok(Ok(()))) {
            return;
        }
    }
}

/// Returns whether the other side has closed the whole connection.
fn is_closed(connection: &OwnedWriteHalf) -> bool {
    let mut polled = PollFd::new(connection.as_ref(), PollFlags::empty());
    let found = poll(slice::from_mut(&mut polled), Some(&Timespec::default()));
    found.is_ok() && polled.revents().intersects(PollFlags::HUP | PollFlags::ERR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_connection_is_closed_when_its_reader_has_gone() {
        let (one, other) = UnixStream::pair().unwrap();
        let (_read, write) = one.into_split();
        assert!(!is_closed(&write));
        // A reader that has sent its last question still waits.
        let other = other.into_std().unwrap();
        other.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(!is_closed(&write));
        drop(other);
        assert!(is_closed(&write));
    }
}
