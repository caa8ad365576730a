//! Connections of applications: each line is a request, and gets a line as its answer.

use std::{sync::Arc, time::Duration};

use ratelimit_protocol::stops::LINE;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{UnixListener, UnixStream},
    task::spawn_blocking,
    time::timeout,
};

use super::judge::{Judge, Reply};
use crate::controller::connections;

/// Connections at a time. Further ones wait.
const CONNECTIONS: usize = 32;
/// How long a connection may be silent, and how long an answer may take to be read.
const IDLE: Duration = Duration::from_secs(60);

/// Answers until it is aborted.
pub(super) async fn serve(listener: UnixListener, judge: Arc<Judge>) {
    connections::serve(listener, CONNECTIONS, |stream| answer(stream, Arc::clone(&judge))).await;
}

/// Answers the lines of one connection.
async fn answer(stream: UnixStream, judge: Arc<Judge>) {
    // The kernel recorded the user when the application connected.
    let user = stream.peer_cred().ok().map(|peer| peer.uid());
    let (read, mut write) = stream.into_split();
    let mut reader = BufReader::new(read);
    loop {
        let mut line = Vec::new();
        let most = LINE as u64 + 2;
        let read = timeout(IDLE, (&mut reader).take(most).read_until(b'\n', &mut line)).await;
        let Ok(Ok(1..)) = read else { return };
        let is_whole = line.pop_if(|byte| *byte == b'\n').is_some();
        let judge = Arc::clone(&judge);
        // The judge waits for the kernel.
        let Ok(reply) = spawn_blocking(move || judge.line(&line, user)).await else { return };
        let answer = match reply {
            Reply::Now(answer) => answer,
            Reply::Later(answer) => match answer.await {
                Ok(answer) => answer,
                Err(_) => return,
            },
        };
        let Ok(mut text) = serde_json::to_vec(&answer) else { return };
        text.push(b'\n');
        let is_sent = matches!(timeout(IDLE, write.write_all(&text)).await, Ok(Ok(())));
        // The rest of a line that is too long is no request.
        if !is_whole || !is_sent {
            return;
        }
    }
}
