//! The caller itself.

use std::time::{Duration, Instant};

use bytes::Bytes;
use ratelimit_base::jitter::random;
use serde::Serialize;
use tokio::time::sleep;

use super::{
    answer::{Answer, Answers},
    backoff::{Backoff, Waiting},
    error::{CallerError, Undecided},
    options::{Options, Server},
    question::{Batch, Question},
    servers::Servers,
    transport::{Kind, Read},
};

/// Asks servers whether requests may go on.
///
/// One caller serves all tasks of a process: put it into an [`Arc`](std::sync::Arc). It needs a runtime of tokio with I/O
/// and timers. Its connections stay open for further questions.
#[derive(Debug)]
pub struct Caller {
    servers: Servers,
    options: Options,
}

impl Caller {
    /// Creates a caller of these servers. It connects with the first question.
    ///
    /// # Errors
    ///
    /// Fails if there is no server, or more than [`MOST_SERVERS`](super::MOST_SERVERS).
    pub fn new(servers: impl IntoIterator<Item = Server>, options: Options) -> Result<Self, CallerError> {
        let servers: Vec<_> = servers.into_iter().collect();
        Ok(Self { servers: Servers::new(&servers, &options)?, options })
    }

    /// Asks about one request.
    ///
    /// A server that fails costs its time, and the next one is asked. If no server decides, the request is allowed, and the
    /// answer says why.
    pub async fn check(&self, question: &Question) -> Answer {
        self.within(question, self.options.total_time).await
    }

    /// Asks about several requests, up to 100: all of them are allowed, or none is charged.
    pub async fn check_all(&self, questions: &[Question]) -> Answers {
        let batch = Batch { requests: questions };
        let answers = self.ask(Kind::Batch, &batch, self.options.total_time, Answers::read).await;
        answers.unwrap_or_else(Answers::undecided)
    }

    /// Asks about one request until it is allowed and has waited in its queue, or until `limit` is over.
    ///
    /// The next question comes as late as the server says, and after a random time that doubles with each refusal. The
    /// request is refused at once if it costs more than the limit, or has to wait for longer than `limit`. So is one whose
    /// place in a queue is too far behind. That place stays taken. The first question is asked in any case.
    pub async fn wait(&self, question: &Question, limit: Duration) -> Answer {
        let Options { backoff, longest_backoff, try_time, total_time, .. } = self.options;
        let begin = Instant::now();
        let mut waiting = Waiting::new(Backoff::new(backoff, longest_backoff), limit, try_time);
        let mut answer = self.check(question).await;
        while !answer.is_allowed {
            let Some(time) = waiting.next(begin.elapsed(), answer.retry_after, random()) else { return answer };
            sleep(time).await;
            answer = self.within(question, total_time.min(limit.saturating_sub(begin.elapsed()).max(try_time))).await;
        }
        let after = answer.after;
        if after > limit.saturating_sub(begin.elapsed()) {
            return Answer { is_allowed: false, retry_after: Some(after), after: Duration::ZERO, ..answer };
        }
        sleep(after).await;
        Answer { after: Duration::ZERO, ..answer }
    }

    async fn within(&self, question: &Question, total: Duration) -> Answer {
        self.ask(Kind::One, question, total, Answer::read).await.unwrap_or_else(Answer::undecided)
    }

    async fn ask<A>(
        &self,
        kind: Kind,
        question: &impl Serialize,
        total: Duration,
        read: Read<A>,
    ) -> Result<A, Undecided> {
        let unreadable = |error: serde_json::Error| Undecided::Question(error.to_string());
        let body = Bytes::from(serde_json::to_vec(question).map_err(unreadable)?);
        self.servers.ask(kind, body, read, self.options.try_time, total).await
    }
}
