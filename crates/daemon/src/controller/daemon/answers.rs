//! Answers to commands. Those about shared rules wait for the engine of a fleet, and the daemon does other work meanwhile.

use std::{collections::VecDeque, time::Duration};

use anyhow::Result;
use tokio::{
    io::AsyncWriteExt as _,
    net::unix::OwnedWriteHalf,
    task::{AbortHandle, JoinSet},
    time::timeout,
};

use crate::controller::{
    fleet::service::Desk,
    socket::{request::Reply, rules::RulesRequest},
};

/// How long a command may take to read its answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// The most answers to changes that wait, and the most others. Root alone asks for changes, so the group of the socket takes
/// no place from them.
const MOST: usize = 4;
/// The most commands that read their answers at a time. A further one takes the place of the oldest.
const MOST_SENT: usize = 32;

/// Answers that wait for the engine, or for the command that reads them. They end with it.
pub(super) struct Waiting {
    desk: Desk,
    changes: JoinSet<()>,
    others: JoinSet<()>,
    sent: VecDeque<AbortHandle>,
}

impl Waiting {
    pub(super) fn at(desk: Desk) -> Self {
        Self { desk, changes: JoinSet::new(), others: JoinSet::new(), sent: VecDeque::new() }
    }

    /// Sends an answer, and does not wait until the command reads it. A command that has ended gets none.
    pub(super) fn send(&mut self, command: OwnedWriteHalf, reply: &Reply) -> Result<()> {
        let text = text(reply)?;
        self.sent.retain(|sent| !sent.is_finished());
        if self.sent.len() >= MOST_SENT {
            self.sent.pop_front().iter().for_each(AbortHandle::abort);
        }
        self.sent.push_back(tokio::spawn(write(command, text)).abort_handle());
        Ok(())
    }

    /// Answers when the engine does. Requests that find no room are answered at once.
    pub(super) fn answer(&mut self, request: RulesRequest, who: String, command: OwnedWriteHalf) -> Result<()> {
        let answers = if request.is_change() { &mut self.changes } else { &mut self.others };
        while answers.try_join_next().is_some() {}
        if answers.len() >= MOST {
            let text =
                format!("nothing was changed: {MOST} other commands wait for the engine of the fleet: try again");
            return self.send(command, &Reply::Failed(text));
        }
        let desk = self.desk.clone();
        answers.spawn(async move {
            let reply = desk.ask(request, who).await.map_or_else(Reply::Failed, Reply::Rules);
            // An answer is always JSON.
            if let Ok(text) = text(&reply) {
                write(command, text).await;
            }
        });
        Ok(())
    }
}

fn text(reply: &Reply) -> Result<String> {
    Ok(serde_json::to_string(reply)? + "\n")
}

async fn write(mut command: OwnedWriteHalf, text: String) {
    let _ = timeout(PATIENCE, command.write_all(text.as_bytes())).await;
}
