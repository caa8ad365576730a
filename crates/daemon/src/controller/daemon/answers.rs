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
/// The most answers to changes that wait, and the most others. Root alone asks for changes, so the group of the socket takes
/// no place from them.
const MOST: usize = 4;

/// Sends an answer. A command that has ended gets none.
pub(super) async fn send(mut command: OwnedWriteHalf, reply: &Reply) -> Result<()> {
    let reply = serde_json::to_string(reply)? + "\n";
    let _ = timeout(PATIENCE, command.write_all(reply.as_bytes())).await;
    Ok(())
}

/// Answers that wait for the engine. They end with it.
pub(super) struct Waiting {
    desk: Desk,
    changes: JoinSet<()>,
    others: JoinSet<()>,
}

impl Waiting {
    pub(super) fn at(desk: Desk) -> Self {
        Self { desk, changes: JoinSet::new(), others: JoinSet::new() }
    }

    /// Answers when the engine does. Requests that find no room are answered at once.
    pub(super) async fn answer(&mut self, request: RulesRequest, who: String, command: OwnedWriteHalf) -> Result<()> {
        let answers = if request.is_change() { &mut self.changes } else { &mut self.others };
        while answers.try_join_next().is_some() {}
        if answers.len() >= MOST {
            let text =
                format!("nothing was changed: {MOST} other commands wait for the engine of the fleet: try again");
            return send(command, &Reply::Failed(text)).await;
        }
        let desk = self.desk.clone();
        answers.spawn(async move {
            let reply = desk.ask(request, who).await.map_or_else(Reply::Failed, Reply::Rules);
            // An answer is always JSON.
            let _ = send(command, &reply).await;
        });
        Ok(())
    }
}
