//! Connections of any kind.

use tokio::io::{AsyncRead, AsyncWrite};

/// A connection of any kind: over TCP or a Unix socket, encrypted or not.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}
