//! Requests of commands, as they arrive. A command that connects and says nothing keeps no other one waiting.

use std::{collections::VecDeque, time::Duration};

use ratelimit_base::notify::journal::{Level, say};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader},
    net::{UnixListener, UnixStream, unix::OwnedWriteHalf},
    task::{AbortHandle, JoinSet, yield_now},
    time::{sleep, timeout},
};

/// How long a command may take to send its request.
const PATIENCE: Duration = Duration::from_secs(1);
/// The most commands that send their requests at a time. A further one takes the place of the oldest.
const MOST_READ: usize = 32;
/// The pause after a connection that could not be accepted, for example for lack of files.
const PAUSE: Duration = Duration::from_millis(100);
const ROOT: u32 = 0;

/// A request, and where its answer goes.
#[derive(Debug)]
pub struct IncomingRequest {
    /// What the command has sent.
    pub line: String,
    /// The user of the command, as the kernel recorded it when the command connected.
    pub user: Option<u32>,
    /// Takes the answer.
    pub command: OwnedWriteHalf,
}

/// The requests of all commands that connect to a socket.
#[derive(Debug)]
pub struct IncomingRequests {
    listener: UnixListener,
    /// The largest request in bytes.
    most_bytes: u64,
    read: JoinSet<Option<IncomingRequest>>,
    /// The commands whose requests are being read, with their users, the oldest first.
    row: VecDeque<(Option<u32>, AbortHandle)>,
    is_failing: bool,
}

impl IncomingRequests {
    /// Accepts connections of this listener.
    #[must_use]
    pub fn new(listener: UnixListener, most_bytes: u64) -> Self {
        Self { listener, most_bytes, read: JoinSet::new(), row: VecDeque::new(), is_failing: false }
    }

    /// Returns the next request. No request is lost if this is dropped meanwhile.
    pub async fn next(&mut self) -> IncomingRequest {
        loop {
            tokio::select! {
                // Requests that have arrived come before further connections.
                biased;
                Some(read) = self.read.join_next() => {
                    if let Ok(Some(request)) = read {
                        return request;
                    }
                }
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        self.is_failing = false;
                        self.begin(stream);
                        // Its request may be there already.
                        yield_now().await;
                    }
                    Err(error) => {
                        if !self.is_failing {
                            say(Level::Warning, &format!("cannot answer commands: {error}: it is tried again"));
                        }
                        self.is_failing = true;
                        sleep(PAUSE).await;
                    }
                },
            }
        }
    }

    fn begin(&mut self, stream: UnixStream) {
        let user = stream.peer_cred().ok().map(|peer| peer.uid());
        let most_bytes = self.most_bytes;
        let reading = self.read.spawn(async move {
            let (read, command) = stream.into_split();
            let mut line = String::new();
            let mut reader = BufReader::new(read.take(most_bytes));
            let is_read = timeout(PATIENCE, reader.read_line(&mut line)).await.is_ok_and(|read| read.is_ok());
            is_read.then_some(IncomingRequest { line, user, command })
        });
        self.row.retain(|(_, reading)| !reading.is_finished());
        if self.row.len() >= MOST_READ {
            // The group of the socket takes no place from root.
            let oldest = self.row.iter().position(|(user, _)| *user != Some(ROOT)).unwrap_or(0);
            self.row.remove(oldest).iter().for_each(|(_, reading)| reading.abort());
        }
        self.row.push_back((user, reading));
    }
}
