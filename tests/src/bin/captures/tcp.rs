//! TCP connections.

use std::{
    io::{Read as _, Write as _},
    net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream},
    os::fd::OwnedFd,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use ratelimit_tests::Sandbox;
use rustix::net::{AddressFamily, SocketType, connect, socket};

/// Bytes of one message, and the number of messages in each direction.
const MESSAGE: usize = 6_000;
const MESSAGES: usize = 4;
const PORT: u16 = 5_000;

/// The peer connects to the victim. Both send some tens of kilobytes, and the peer closes first.
pub(crate) fn talk(sandbox: &Sandbox, victim: IpAddr) -> Result<()> {
    let mut connection = Connection::new(sandbox, victim, |_| Ok(()))?;
    for _ in 0..MESSAGES {
        connection.echo(MESSAGE)?;
    }
    connection.close()
}

/// Both ends of a connection.
pub(crate) struct Connection {
    client: TcpStream,
    server: TcpStream,
}

impl Connection {
    /// Connects from the peer, whose socket is prepared first, to the victim.
    pub(crate) fn new(
        sandbox: &Sandbox,
        victim: IpAddr,
        prepare: impl FnOnce(&OwnedFd) -> Result<()> + Send,
    ) -> Result<Self> {
        let address = SocketAddr::new(victim, PORT);
        let listener = sandbox.victim(|| TcpListener::bind(address)).context("cannot listen")?;
        let family = if victim.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let client = sandbox.peer(|| -> Result<_> {
            let socket = socket(family, SocketType::STREAM, None)?;
            prepare(&socket)?;
            connect(&socket, &address).context("cannot connect")?;
            Ok(TcpStream::from(socket))
        })?;
        // The kernel has already accepted the connection, so this does not wait.
        let (server, _) = listener.accept()?;
        for end in [&client, &server] {
            end.set_read_timeout(Some(Duration::from_secs(10)))?;
        }
        Ok(Self { client, server })
    }

    /// The client sends this many bytes and receives as many. They fit into the socket buffers.
    pub(crate) fn echo(&mut self, bytes: usize) -> Result<()> {
        let message: Vec<_> = (0..=u8::MAX).cycle().take(bytes).collect();
        let mut heard = vec![0; bytes];
        for (from, to) in [(&self.client, &self.server), (&self.server, &self.client)] {
            let (mut from, mut to) = (from, to);
            from.write_all(&message)?;
            to.read_exact(&mut heard)?;
            ensure!(heard == message, "TCP has changed the message");
        }
        Ok(())
    }

    /// Closes both ends, the client first.
    pub(crate) fn close(mut self) -> Result<()> {
        self.client.shutdown(Shutdown::Write)?;
        ensure!(self.server.read(&mut [0])? == 0, "the client says more");
        drop(self.server);
        ensure!(self.client.read(&mut [0])? == 0, "the server says more");
        Ok(())
    }
}
