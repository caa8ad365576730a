//! Connections to a server.

use std::{
    fmt,
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use hyper::{
    Uri,
    rt::{Read, ReadBufCursor, Write},
};
use hyper_util::{
    client::legacy::connect::{Connected, Connection},
    rt::TokioIo,
};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tower_service::Service;

use super::{
    address::{Address, Place},
    encryption,
    error::{CallerError, ConnectError},
    options::Server,
};
use crate::wire;

/// Connects to one server, whatever the URI says.
#[derive(Debug, Clone)]
pub(crate) struct Connector(Arc<Target>);

/// A server, and what encrypts connections to it.
struct Target {
    address: Address,
    encryption: Option<TlsConnector>,
}

/// A connection to a server.
pub(crate) struct Stream(TokioIo<Box<dyn wire::Stream>>);

impl Connector {
    /// Checks whether the token is safe there, and reads the authorities of the system if they are needed.
    pub(crate) fn new(server: &Server) -> Result<Self, CallerError> {
        let Server { address, token, authority, .. } = server;
        if token.is_some() && !address.is_private() {
            return Err(CallerError::Exposed(address.to_string()));
        }
        if authority.is_some() && !address.is_encrypted() {
            return Err(CallerError::NotEncrypted(address.to_string()));
        }
        let encryption = address.is_encrypted().then(|| encryption::connector(authority.as_ref())).transpose()?;
        Ok(Self(Arc::new(Target { address: address.clone(), encryption })))
    }

    /// Connects.
    pub(crate) async fn connect(&self) -> Result<Stream, ConnectError> {
        let Target { address, encryption } = &*self.0;
        let server = || address.to_string();
        let refused = |error: io::Error| ConnectError::Refused { server: server(), error: error.to_string() };
        let stream: Box<dyn wire::Stream> = match &address.0 {
            Place::Unix(path) => Box::new(UnixStream::connect(path).await.map_err(refused)?),
            Place::Tcp { host, port, name } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(refused)?;
                stream.set_nodelay(true).map_err(refused)?;
                match name.as_ref().zip(encryption.as_ref()) {
                    None => Box::new(stream),
                    Some((name, encryption)) => {
                        let failed = |error: io::Error| ConnectError::Encryption {
                            server: server(),
                            error: encryption::problem(&error),
                        };
                        Box::new(encryption.connect(name.clone(), stream).await.map_err(failed)?)
                    }
                }
            }
        };
        Ok(Stream(TokioIo::new(stream)))
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, ConnectError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let this = self.clone();
        Box::pin(async move { this.connect().await })
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl Write for Stream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
