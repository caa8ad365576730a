//! Sockets of both kinds.

use std::{io, net, os::unix};

use ratelimit_base::stream::Stream;
use tokio::net::{TcpListener, UnixListener};

/// A bound socket that does not accept connections yet.
pub(super) enum Bound {
    /// Open to every machine that can reach the address.
    Tcp(net::TcpListener),
    /// Open to every process that may open the file.
    Unix(unix::net::UnixListener),
}

/// A socket that accepts connections.
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Bound {
    /// Starts to accept connections. Must be called in the runtime that serves it.
    pub(super) fn listen(self) -> io::Result<Listener> {
        match self {
            Self::Tcp(socket) => {
                socket.set_nonblocking(true)?;
                TcpListener::from_std(socket).map(Listener::Tcp)
            }
            Self::Unix(socket) => {
                socket.set_nonblocking(true)?;
                UnixListener::from_std(socket).map(Listener::Unix)
            }
        }
    }
}

impl Listener {
    /// Returns the next connection.
    pub(super) async fn accept(&self) -> io::Result<Box<dyn Stream>> {
        match self {
            Self::Tcp(listener) => Ok(Box::new(listener.accept().await?.0)),
            Self::Unix(listener) => Ok(Box::new(listener.accept().await?.0)),
        }
    }
}
