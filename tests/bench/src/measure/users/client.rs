//! The load client: users that request a page again and again, each time over a new connection. One thread serves them
//! all.

use std::{
    io::{self, ErrorKind},
    panic,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use ratelimit_tests::{Sandbox, VICTIM_IPV4};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    runtime::Builder,
    time::timeout,
};

use super::server::PAGE;
use crate::flood::SERVER_PORT;

/// Users at the same time.
const COUNT: usize = 64;

/// One request.
#[derive(Clone, Copy)]
pub(super) struct Request {
    pub(super) begin: Instant,
    pub(super) end: Instant,
    pub(super) succeeded: bool,
}

/// Has all users request pages while `work` runs, and returns its result and their requests. The users run on the CPU of
/// the calling thread. A request fails after `patience`.
pub(super) fn during<T>(sandbox: &Sandbox, patience: Duration, work: impl FnOnce() -> T) -> Result<(T, Vec<Request>)> {
    let stop = Arc::new(AtomicBool::new(false));
    thread::scope(|scope| {
        let client = scope.spawn(|| sandbox.peer(|| run(patience, &stop)));
        let stopping = Stopping(&stop);
        let result = work();
        drop(stopping);
        let requests = client.join().unwrap_or_else(|payload| panic::resume_unwind(payload))?;
        Ok((result, requests))
    })
}

/// Stops the users on drop, also if the work panics.
struct Stopping<'a>(&'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs all users until stopped, and returns their requests.
fn run(patience: Duration, stop: &Arc<AtomicBool>) -> Result<Vec<Request>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let users: Vec<_> = (0..COUNT).map(|_| runtime.spawn(user(patience, Arc::clone(stop)))).collect();
    runtime.block_on(async {
        let mut requests = Vec::new();
        for user in users {
            requests.extend(user.await?);
        }
        Ok(requests)
    })
}

/// Requests pages one by one until stopped.
async fn user(patience: Duration, stop: Arc<AtomicBool>) -> Vec<Request> {
    let mut requests = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let begin = Instant::now();
        let succeeded = matches!(timeout(patience, fetch()).await, Ok(Ok(())));
        requests.push(Request { begin, end: Instant::now(), succeeded });
    }
    requests
}

/// Fetches the whole page.
async fn fetch() -> io::Result<()> {
    let mut stream = TcpStream::connect((VICTIM_IPV4, SERVER_PORT)).await?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await?;
    let mut answer = Vec::with_capacity(2 * PAGE);
    stream.read_to_end(&mut answer).await?;
    let is_page = answer.starts_with(b"HTTP/1.1 200 ") && answer.ends_with(&[b'.'; PAGE]);
    if is_page { Ok(()) } else { Err(ErrorKind::InvalidData.into()) }
}
