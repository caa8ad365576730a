//! Where those who ask come in.

use std::{io, net, os::unix};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener},
};

/// A socket that is bound, and not listened to yet.
pub(super) enum Bound {
    /// For everybody who can reach the address.
    Tcp(net::TcpListener),
    /// For everybody who may open the file.
    Unix(unix::net::UnixListener),
}

/// A socket that is listened to.
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A connection of either kind.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Bound {
    /// Listens. To be called where it is served.
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
    /// The next who asks.
    pub(super) async fn accept(&self) -> io::Result<Box<dyn Stream>> {
        match self {
            Self::Tcp(listener) => Ok(Box::new(listener.accept().await?.0)),
            Self::Unix(listener) => Ok(Box::new(listener.accept().await?.0)),
        }
    }
}
