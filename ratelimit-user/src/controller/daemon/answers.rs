//! Answers to commands. Those about shared rules wait for the engine of a fleet, and the daemon does other work meanwhile.

use std::time::Duration;

use anyhow::Result;
use tokio::{io::AsyncWriteExt as _, net::unix::OwnedWriteHalf, task::JoinSet, time::timeout};

use crate::controller::{
    fleet::service::Desk,
    socket::{request::Reply, rules::RulesRequest},
};

/// How long a command may take to read its answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// The most answers that wait.
const MOST: usize = 8;

/// Sends an answer. A command that has ended gets none.
pub(super) async fn send(mut command: OwnedWriteHalf, reply: &Reply) -> Result<()> {
    let reply = serde_json::to_string(reply)? + "\n";
    let _ = timeout(PATIENCE, command.write_all(reply.as_bytes())).await;
    Ok(())
}

/// Answers that wait for the engine. They end with it.
pub(super) struct Waiting {
    desk: Desk,
    answers: JoinSet<()>,
}

impl Waiting {
    pub(super) fn at(desk: Desk) -> Self {
        Self { desk, answers: JoinSet::new() }
    }

    /// Answers when the engine does. Requests that find no room are answered at once.
    pub(super) async fn answer(&mut self, request: RulesRequest, who: String, command: OwnedWriteHalf) -> Result<()> {
        while self.answers.try_join_next().is_some() {}
        if self.answers.len() >= MOST {
            let text =
                format!("nothing was changed: {MOST} other commands wait for the engine of the fleet: try again");
            return send(command, &Reply::Failed(text)).await;
        }
        let desk = self.desk.clone();
        self.answers.spawn(async move {
            let reply = desk.ask(request, who).await.map_or_else(Reply::Failed, Reply::Rules);
            // An answer is always JSON.
            let _ = send(command, &reply).await;
        });
        Ok(())
    }
}
