//! Sends requests to the daemon, one after the other, over one connection.

use std::{future::pending, io, path::PathBuf, sync::Arc, time::Duration};

use ratelimit_base::{
    jitter::{part, random},
    notify::journal::{self, Level},
};
use ratelimit_protocol::stops::Answer;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::UnixStream,
    sync::mpsc,
    time::{Instant, sleep_until, timeout},
};

use super::{
    asked::{Ask, Asked},
    counts::{Counts, Outcome},
};

/// The time in which the daemon must accept a connection.
const CONNECT: Duration = Duration::from_millis(250);
/// The time in which it must answer a line. For the first limit, the kernel can load another program.
const ANSWER: Duration = Duration::from_secs(5);
/// The longest answer in bytes.
const LONGEST: u64 = 4_096;
/// The shortest and the longest time between two tries to connect.
const TRIES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(10)];

/// The shortest time between two connections to a daemon that closes them.
const RENEW: Duration = Duration::from_secs(1);

/// Sends requests to the daemon.
pub(in crate::serve) struct Sender {
    socket: PathBuf,
    pub(super) asks: mpsc::Receiver<Ask>,
    asked: Arc<Asked>,
    counts: Arc<Counts>,
    open: Option<BufReader<UnixStream>>,
    /// When the daemon last accepted a connection. None if it has not accepted the last one.
    reached: Option<Instant>,
    /// Whether it has left the last request without an answer, and has not shown since that it lives.
    is_silent: bool,
    /// Not before this time is the daemon asked again after a failure, and how long it was left out.
    next: Option<(Instant, Duration)>,
    /// What the operator knows.
    is_up: Option<bool>,
}

impl Sender {
    pub(super) fn new(socket: PathBuf, asks: mpsc::Receiver<Ask>, asked: Arc<Asked>, counts: Arc<Counts>) -> Self {
        Self { socket, asks, asked, counts, open: None, reached: None, is_silent: false, next: None, is_up: None }
    }

    /// Sends requests as long as the server lives.
    pub(in crate::serve) async fn run(mut self) {
        // The operator learns at once whether the daemon can be reached.
        self.look().await;
        loop {
            tokio::select! {
                ask = self.asks.recv() => {
                    let Some(ask) = ask else { return };
                    let outcome = self.send(&ask).await;
                    self.counts.count(outcome);
                }
                () = due(self.open.as_mut(), self.reached, self.next) => self.look().await,
            }
        }
    }

    /// Finds out whether the daemon can be reached, and keeps the connection.
    async fn look(&mut self) {
        // A daemon that hangs closes no connection. The system accepts connections for it.
        if self.open.take().is_some() {
            self.is_silent = false;
        }
        match self.connect().await {
            Ok(()) if self.is_silent => {}
            Ok(()) => self.up(),
            Err(error) => {
                self.is_silent &= !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused);
                self.down(&error);
            }
        }
    }

    pub(super) async fn send(&mut self, ask: &Ask) -> Outcome {
        if self.open.is_none() && self.next.is_some_and(|(next, _)| Instant::now() < next) {
            return Outcome::Unanswered;
        }
        let was_open = self.open.is_some();
        let mut answer = self.exchange(&ask.line).await;
        // The daemon closes a connection that is idle, and one that a restart has left.
        if was_open && answer.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::TimedOut) {
            answer = self.exchange(&ask.line).await;
        }
        match answer {
            Err(error) => {
                self.is_silent = self.reached.is_some();
                self.down(&error);
                Outcome::Unanswered
            }
            Ok(answer) => {
                self.up();
                let (outcome, seconds) = match answer {
                    Answer::Stopped { seconds, .. } => (Outcome::Stopped, Some(seconds)),
                    Answer::WouldStop { seconds, .. } => (Outcome::WouldStop, Some(seconds)),
                    Answer::Already { seconds, .. } => (Outcome::Already, Some(seconds)),
                    Answer::Refused { .. } => (Outcome::Refused, None),
                };
                if let Some(seconds) = seconds {
                    self.asked.limited(ask.place, ask.at, seconds);
                }
                outcome
            }
        }
    }

    #[cfg(test)]
    pub(super) fn close(&mut self) {
        self.open = None;
    }

    async fn connect(&mut self) -> io::Result<()> {
        self.reached = None;
        let stream = timeout(CONNECT, UnixStream::connect(&self.socket)).await.map_err(|_| late(CONNECT))??;
        (self.open, self.reached) = (Some(BufReader::new(stream)), Some(Instant::now()));
        Ok(())
    }

    /// Sends a line, and returns the answer. A connection that fails is closed, so that no late answer is taken for that
    /// of another line.
    async fn exchange(&mut self, line: &[u8]) -> io::Result<Answer> {
        if self.open.is_none() {
            self.connect().await?;
        }
        let Some(mut open) = self.open.take() else { return Err(io::ErrorKind::NotConnected.into()) };
        let answer = timeout(ANSWER, exchange(&mut open, line)).await.map_err(|_| late(ANSWER))??;
        self.open = Some(open);
        Ok(answer)
    }

    fn up(&mut self) {
        (self.is_silent, self.next) = (false, None);
        if self.is_up != Some(true) {
            self.tell(true, Level::Info, &format!("stops: the daemon answers on {}", self.socket.display()));
        }
    }

    fn down(&mut self, error: &io::Error) {
        self.open = None;
        let [shortest, longest] = TRIES;
        let pause = self.next.map_or(shortest, |(_, pause)| (pause * 2).min(longest));
        self.next = Some((Instant::now() + pause - part(pause / 2, random()), pause));
        if self.is_up != Some(false) {
            let text = format!(
                "stops: {}: {error}: no client is stopped at the network card until the daemon answers",
                self.socket.display()
            );
            self.tell(false, Level::Warning, &text);
        }
    }

    fn tell(&mut self, is_up: bool, level: Level, text: &str) {
        self.is_up = Some(is_up);
        self.counts.set_up(is_up);
        journal::say(level, text);
    }
}

/// Waits until it is unknown whether the daemon can be reached: it has closed the connection, as it does at its end and
/// after a time without requests. Or there is none, and it may be tried again.
async fn due(open: Option<&mut BufReader<UnixStream>>, reached: Option<Instant>, next: Option<(Instant, Duration)>) {
    match (open, reached, next) {
        (Some(open), Some(reached), _) => {
            // A daemon says nothing without a request.
            let _ = open.fill_buf().await;
            sleep_until(reached + RENEW).await;
        }
        (None, _, Some((next, _))) => sleep_until(next).await,
        _ => pending().await,
    }
}

async fn exchange(open: &mut BufReader<UnixStream>, line: &[u8]) -> io::Result<Answer> {
    open.write_all(&[line, b"\n"].concat()).await?;
    let mut answer = Vec::new();
    open.take(LONGEST).read_until(b'\n', &mut answer).await?;
    if answer.is_empty() {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the daemon closed the connection"));
    }
    serde_json::from_slice(&answer).map_err(|_| io::Error::other("the answer is not that of a daemon"))
}

fn late(deadline: Duration) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {} ms", deadline.as_millis()))
}
