//! Connections to a server. What secures a connection belongs here.

use std::{
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
use tower_service::Service;

use super::address::Place;
use crate::wire;

/// Connects to one server, whatever the URI says.
#[derive(Debug, Clone)]
pub(super) struct Connector(Arc<Place>);

/// A connection to a server.
pub(super) struct Stream(TokioIo<Box<dyn wire::Stream>>);

impl Connector {
    pub(super) fn new(place: Place) -> Self {
        Self(Arc::new(place))
    }
}

async fn connect(place: &Place) -> io::Result<Stream> {
    let stream: Box<dyn wire::Stream> = match place {
        Place::Unix(path) => Box::new(UnixStream::connect(path).await?),
        Place::Http(host, port) => {
            let host = host.trim_start_matches('[').trim_end_matches(']');
            let stream = TcpStream::connect((host, *port)).await?;
            stream.set_nodelay(true)?;
            Box::new(stream)
        }
    };
    Ok(Stream(TokioIo::new(stream)))
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let place = Arc::clone(&self.0);
        Box::pin(async move { connect(&place).await })
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
