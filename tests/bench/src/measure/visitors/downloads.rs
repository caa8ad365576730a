//! Established connections that download beside a flood.

use std::{
    io::{Read as _, Write as _},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    panic::resume_unwind,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use ratelimit_tests::VICTIM_IPV4;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

use super::{losses::Losses, protection::Protection, segments::Segments, stage::Stage};
use crate::flood::{Kind, Protocol, Rate};

/// The longest time without progress.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time in which the last segments arrive.
const REST: Duration = Duration::from_millis(300);

/// The downloads beside one flood.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Downloaded {
    pub(crate) protocol: Protocol,
    pub(crate) rate: Rate,
    /// Bytes of all downloads that arrived.
    pub(crate) bytes: u64,
    /// Segments that the clients sent, how many of them the server did not receive, and how many of these did not fit
    /// into a ring.
    pub(crate) sent: u64,
    pub(crate) missing: u64,
    pub(crate) lost: u64,
    /// Packets of the flood that arrived, per second.
    pub(crate) flood: f64,
}

impl Downloaded {
    /// Returns the segments that neither arrived nor were lost in a ring: the product has dropped them.
    pub(crate) fn dropped(&self) -> u64 {
        self.missing.saturating_sub(self.lost)
    }
}

/// One connection.
struct Connection {
    client: TcpStream,
    server: TcpStream,
}

/// Has `count` clients, which connected before the flood, download so many bytes each beside it.
pub(super) fn run(stage: &Stage, (kind, rate): (Kind, Rate), count: u32, bytes: usize) -> Result<Downloaded> {
    let _standing = Protection::Prove.set_up(&stage.sandbox)?;
    let listener = stage.sandbox.victim(|| TcpListener::bind((VICTIM_IPV4, 0)))?;
    let to = listener.local_addr()?;
    stage.receive_here(to.port())?;
    let connections = open(stage, &listener, to, count)?;
    let calm = Losses::so_far(&stage.sandbox)?;
    let flood = stage.flood(kind, rate)?;
    let begin = Instant::now();
    let (sent_before, before) = (flood.sent(), Losses::so_far(&stage.sandbox)?);
    let segments_before = Sum::of(&connections)?;
    let arrived = transfer(&connections, bytes)?;
    thread::sleep(REST);
    let segments = Sum::of(&connections)?;
    let (sent, lost) = (flood.sent() - sent_before, Losses::so_far(&stage.sandbox)?.since(before).flood);
    let seconds = begin.elapsed().as_secs_f64();
    drop(flood);
    let lost_in_ring = Losses::so_far(&stage.sandbox)?.since(calm).visitors;
    let (sent_segments, received) =
        (segments.sent - segments_before.sent, segments.received - segments_before.received);
    Ok(Downloaded {
        protocol: kind.protocol,
        rate,
        bytes: arrived,
        sent: sent_segments,
        missing: sent_segments.saturating_sub(received),
        lost: lost_in_ring,
        flood: sent.saturating_sub(lost) as f64 / seconds,
    })
}

/// Connects clients, each from an address of its own.
fn open(stage: &Stage, listener: &TcpListener, to: SocketAddr, count: u32) -> Result<Vec<Connection>> {
    let first = stage.new_addresses(count);
    let connect_from = |number: u32| -> Result<_> {
        let from = IpAddr::from(Ipv4Addr::from_bits(first.to_bits() + number));
        let client = stage.sandbox.peer(|| -> Result<_> {
            let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
            bind(&socket, &SocketAddr::new(from, 0))?;
            connect(&socket, &to)?;
            Ok(TcpStream::from(socket))
        })?;
        client.set_read_timeout(Some(PATIENCE))?;
        // Connections that only tell which CPU receives come first.
        let server = loop {
            let (server, peer) = listener.accept()?;
            if peer.ip() == from {
                break server;
            }
        };
        server.set_write_timeout(Some(PATIENCE))?;
        Ok(Connection { client, server })
    };
    (0..count).map(connect_from).collect()
}

/// The segments of all connections.
struct Sum {
    /// Those that the clients sent.
    sent: u64,
    /// Those of them that the server received.
    received: u64,
}

impl Sum {
    fn of(connections: &[Connection]) -> Result<Self> {
        let mut sum = Self { sent: 0, received: 0 };
        for Connection { client, server } in connections {
            sum.sent += u64::from(Segments::of(client)?.sent);
            sum.received += u64::from(Segments::of(server)?.received);
        }
        Ok(sum)
    }
}

/// Sends so many bytes to each client at the same time, and returns how many arrived.
fn transfer(connections: &[Connection], bytes: usize) -> Result<u64> {
    let content = vec![7; bytes];
    thread::scope(|scope| {
        let clients: Vec<_> = connections
            .iter()
            .map(|Connection { client, server }| {
                let content = &content;
                scope.spawn(move || (&*server).write_all(content));
                scope.spawn(move || -> Result<u64> {
                    let mut received = vec![0; content.len()];
                    (&*client).read_exact(&mut received)?;
                    ensure!(received == *content, "a download differs from what was sent");
                    Ok(received.len() as u64)
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap_or_else(|payload| resume_unwind(payload))).sum()
    })
}
