//! New visitors: each has an address of its own, and gets the page once.

use std::{
    io::{self, ErrorKind},
    net::{Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use anyhow::Result;
use ratelimit_tests::VICTIM_IPV4;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpSocket,
    runtime::Builder,
    time::{interval, timeout},
};

use super::layout::{PAGE, SPACING};
use crate::flood::SERVER_PORT;

/// Has so many visitors come one after another, from this address on. Returns the time of each until it had the page,
/// or nothing if it had none after `patience`.
///
/// The thread must be in the peer's namespace. All visitors run on its CPU.
pub(super) fn all(first: Ipv4Addr, count: u32, patience: Duration) -> Result<Vec<Option<Duration>>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (mut turns, mut visitors) = (interval(SPACING), Vec::new());
        for number in 0..count {
            turns.tick().await;
            let address = Ipv4Addr::from_bits(first.to_bits() + number);
            visitors.push(runtime.spawn(visit(address, patience)));
        }
        let mut times = Vec::new();
        for visitor in visitors {
            times.push(visitor.await?);
        }
        Ok(times)
    })
}

async fn visit(address: Ipv4Addr, patience: Duration) -> Option<Duration> {
    let begin = Instant::now();
    let outcome = timeout(patience, fetch(address)).await;
    matches!(outcome, Ok(Ok(()))).then(|| begin.elapsed())
}

/// Fetches the whole page.
async fn fetch(address: Ipv4Addr) -> io::Result<()> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from((address, 0)))?;
    let mut stream = socket.connect(SocketAddr::from((VICTIM_IPV4, SERVER_PORT))).await?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await?;
    let mut answer = Vec::with_capacity(2 * PAGE);
    stream.read_to_end(&mut answer).await?;
    let is_page = answer.starts_with(b"HTTP/1.1 200 ") && answer.ends_with(&[b'.'; PAGE]);
    if is_page { Ok(()) } else { Err(ErrorKind::InvalidData.into()) }
}
