//! Asks the daemon what it shows of packets, and for changes of rules.

use std::{io, path::PathBuf, time::Duration};

use ratelimit_protocol::view::{ANSWER, Answer, Counts, Question};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::UnixStream,
    time::timeout,
};

/// The time that an answer may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// The same for a change, which waits for commands. The daemon gives up after ten seconds.
const OF_CHANGE: Duration = Duration::from_secs(15);

/// The socket of the daemon.
#[derive(Debug)]
pub(super) struct Packets(pub(super) PathBuf);

impl Packets {
    /// Asks a question. Fails with the reason in words.
    pub(super) async fn ask(&self, question: &Question) -> Result<Answer, String> {
        let Self(path) = self;
        let failed = |error: &dyn std::fmt::Display| {
            format!(
                "The daemon shows no packets at {}: {error}. It needs a table [view] with this socket.",
                path.display()
            )
        };
        let is_change = question.is_change();
        match timeout(if is_change { OF_CHANGE } else { PATIENCE }, self.exchange(question)).await {
            Ok(Ok(Answer::Failed(reason))) if is_change => Err(format!("The daemon says: {reason}")),
            Ok(Ok(Answer::Failed(reason))) => Err(format!("The daemon shows no packets: {reason}")),
            Ok(Ok(answer)) => Ok(answer),
            Err(_) if is_change => {
                Err("The daemon does not answer in time. The change can still come: read the rule again.".to_owned())
            }
            Ok(Err(error)) => Err(failed(&error)),
            Err(_) => Err(failed(&"it does not answer in time")),
        }
    }

    async fn exchange(&self, question: &Question) -> io::Result<Answer> {
        let mut stream = UnixStream::connect(&self.0).await?;
        let mut line = serde_json::to_vec(question)?;
        line.push(b'\n');
        stream.write_all(&line).await?;
        let mut answer = Vec::new();
        BufReader::new(stream.take(ANSWER as u64)).read_until(b'\n', &mut answer).await?;
        Ok(serde_json::from_slice(&answer)?)
    }

    /// Returns how many packets had which reason.
    pub(super) async fn counts(&self) -> Result<Counts, String> {
        match self.ask(&Question::Counts).await? {
            Answer::Counts(counts) => Ok(counts),
            _ => Err("The daemon has another version.".to_owned()),
        }
    }
}
