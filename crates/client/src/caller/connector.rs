//! Connections to a server.

use std::{
    fmt,
    future::Future,
    io,
    path::Path,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use hyper::{
    Uri,
    rt::{Read, ReadBufCursor, Write},
};
use hyper_util::{
    client::legacy::connect::{Connected, Connection},
    rt::TokioIo,
};
use ratelimit_base::{jitter::random, stream};
use tokio::{
    net::{TcpStream, UnixStream},
    time::sleep,
};
use tower_service::Service;

use super::{
    address::{Address, Place},
    backoff::Backoff,
    encryption::Encryption,
    error::{CallerError, ConnectError},
    options::Server,
};

/// The shortest pause before another try if the queue of a socket is full, and the longest jitter after it.
const PAUSE: Duration = Duration::from_millis(5);
const JITTER: Duration = Duration::from_millis(80);

/// Connects to one server, whatever the URI says.
#[derive(Debug, Clone)]
pub struct Connector(Arc<Target>);

/// A server, and what encrypts connections to it.
struct Target {
    address: Address,
    encryption: Option<Encryption>,
    /// How long to wait for a place in the queue of a socket.
    wait: Duration,
}

/// A connection to a server.
pub struct Stream(TokioIo<Box<dyn stream::Stream>>);

impl Connector {
    /// Checks whether the token is safe there, and reads the authorities of the system if they are needed. If the queue of
    /// a socket is full, a connection waits for a place within `wait`.
    pub fn new(server: &Server, wait: Duration) -> Result<Self, CallerError> {
        let Server { address, token, authority, .. } = server;
        if token.is_some() && !address.is_private() {
            return Err(CallerError::Exposed(address.to_string()));
        }
        if authority.is_some() && !address.is_encrypted() {
            return Err(CallerError::NotEncrypted(address.to_string()));
        }
        let encryption =
            address.is_encrypted().then(|| Encryption::new(&address.to_string(), authority.as_ref())).transpose()?;
        Ok(Self(Arc::new(Target { address: address.clone(), encryption, wait })))
    }

    /// Connects.
    pub async fn connect(&self) -> Result<Stream, ConnectError> {
        let Target { address, encryption, wait } = &*self.0;
        let server = || address.to_string();
        let refused = |error: io::Error| ConnectError::Refused { server: server(), error: error.to_string() };
        let stream: Box<dyn stream::Stream> = match &address.0 {
            Place::Unix(path) => Box::new(to_socket(path, *wait).await.map_err(refused)?),
            Place::Tcp { host, port, .. } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(refused)?;
                stream.set_nodelay(true).map_err(refused)?;
                match encryption {
                    None => Box::new(stream),
                    Some(encryption) => {
                        let failed = |error| ConnectError::Encryption { server: server(), error };
                        encryption.connect(host, stream).await.map_err(failed)?
                    }
                }
            }
        };
        Ok(Stream(TokioIo::new(stream)))
    }
}

/// Connects to a socket. The system refuses at once while the queue of the socket is full, so this tries again within `wait`.
async fn to_socket(path: &Path, wait: Duration) -> io::Result<UnixStream> {
    let (begin, mut backoff) = (Instant::now(), Backoff::new(PAUSE, JITTER));
    loop {
        match UnixStream::connect(path).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && begin.elapsed() < wait => {
                sleep(backoff.next(PAUSE, random())).await;
            }
            connected => return connected,
        }
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

#[cfg(test)]
pub(super) mod tests {
    use std::{env, fs, os::unix::net::UnixListener, process};

    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
    use tokio::time::timeout;

    use super::*;

    /// Returns a socket, and connections that fill its queue.
    pub(in crate::caller) async fn full_socket(path: &Path) -> (UnixListener, Vec<UnixStream>) {
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        bind(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
        listen(&socket, 1).unwrap();
        let server = UnixListener::from(socket);
        let mut queue = Vec::new();
        let full = loop {
            match UnixStream::connect(path).await {
                Ok(stream) => queue.push(stream),
                Err(error) => break error,
            }
        };
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        (server, queue)
    }

    #[tokio::test]
    async fn a_caller_waits_for_a_place_in_the_queue_of_a_socket_within_its_time() {
        let path = env::temp_dir().join(format!("ratelimit-queue-{}", process::id()));
        let (server, _queue) = full_socket(&path).await;
        for wait in [Duration::ZERO, 3 * PAUSE] {
            let begin = Instant::now();
            assert_eq!(to_socket(&path, wait).await.unwrap_err().kind(), io::ErrorKind::WouldBlock);
            assert!(begin.elapsed() >= wait);
        }
        let connect = to_socket(&path, Duration::MAX);
        tokio::pin!(connect);
        assert!(timeout(3 * PAUSE, &mut connect).await.is_err());
        let _accepted = server.accept().unwrap();
        assert!(connect.await.is_ok());
        fs::remove_file(&path).unwrap();
    }
}
