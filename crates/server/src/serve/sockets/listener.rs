//! The sockets where callers ask.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::{
        fs::{FileTypeExt as _, PermissionsExt as _, chown},
        net::UnixStream as StdUnixStream,
    },
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, anyhow, bail};
use ratelimit_base::{stream::Stream, unix_group::Group};
use rustix::process::getegid;
use tokio::net::{TcpListener, UnixListener};

use super::callers::Caller;
use crate::{config::Listen, serve::access::Peer};

/// A socket that accepts connections.
pub(super) enum Listener {
    Tcp(TcpListener),
    /// The socket, and its file, which ends with it.
    Unix(UnixListener, PathBuf),
}

/// A new connection, and where it comes from.
pub(super) struct Accepted {
    pub(super) stream: Box<dyn Stream>,
    pub(super) peer: Option<Peer>,
    /// None if it does not count.
    pub(super) caller: Option<Caller>,
}

impl Listener {
    /// Opens the socket, a Unix one for a group. A file that an earlier server has left is replaced.
    pub(super) async fn open(listen: &Listen, group: Option<&str>) -> Result<Self> {
        match listen {
            Listen::Tcp(address) => {
                let listener = TcpListener::bind(address).await.map_err(|error| match error.kind() {
                    io::ErrorKind::AddrInUse => {
                        anyhow!(
                            "{address} is in use, by another program or by another key of [serve]: end that program, or choose \
                             another address"
                        )
                    }
                    _ => anyhow!("cannot listen on {address}: {error}"),
                })?;
                Ok(Self::Tcp(listener))
            }
            Listen::Unix(path) => {
                let group = group.map(other).transpose()?;
                remove_stale(path)?;
                let refused = || {
                    format!(
                        "cannot listen on {}: does its folder exist, and may this user write there?",
                        path.display()
                    )
                };
                let listener = UnixListener::bind(path).with_context(refused)?;
                let listener = Self::Unix(listener, path.clone());
                if let Some((name, number)) = group {
                    chown(path, None, Some(number)).with_context(|| {
                        format!("cannot give {} to the group {name}: may this user do so?", path.display())
                    })?;
                }
                // Callers have this group, or that of the server, whatever its umask is.
                fs::set_permissions(path, Permissions::from_mode(0o660)).with_context(refused)?;
                Ok(listener)
            }
        }
    }

    /// Returns the next connection, or none if its caller has given up meanwhile.
    pub(super) async fn accept(&self) -> io::Result<Option<Accepted>> {
        match self {
            Self::Tcp(listener) => {
                let (stream, address) = match listener.accept().await {
                    // An error of the network that concerns this connection alone: accept(2).
                    Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => return Ok(None),
                    accepted => accepted?,
                };
                let address = address.ip().to_canonical();
                let (peer, caller) = (Some(Peer(address)), Caller::at(address));
                Ok(stream.set_nodelay(true).ok().map(|()| Accepted { stream: Box::new(stream), peer, caller }))
            }
            Self::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                let Ok(process) = stream.peer_cred() else { return Ok(None) };
                let caller = Caller::process(process.pid());
                Ok(Some(Accepted { stream: Box::new(stream), peer: None, caller }))
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            let _ = fs::remove_file(path);
        }
    }
}

/// Finds a group other than that of the server, whose members may ask about requests.
fn other(name: &str) -> Result<(&str, u32)> {
    let number = Group::named(name)?.number();
    if number == getegid().as_raw() {
        bail!("the group {name} is that of the server, which callers have: write another one");
    }
    Ok((name, number))
}

/// Removes a socket on which nobody listens any more.
fn remove_stale(path: &Path) -> Result<()> {
    let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(()) };
    if !metadata.file_type().is_socket() {
        bail!("{} exists and is no socket: remove it, or choose another path", path.display());
    }
    if StdUnixStream::connect(path).is_ok() {
        bail!("another server listens on {}: end it, or choose another path", path.display());
    }
    fs::remove_file(path).with_context(|| format!("cannot replace {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_in_use_is_refused_with_advice() {
        let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = other.local_addr().unwrap();
        let error = Listener::open(&Listen::Tcp(address), None).await.err().unwrap();
        let expected = format!(
            "{address} is in use, by another program or by another key of [serve]: end that program, or choose another \
             address"
        );
        assert_eq!(format!("{error:#}"), expected);
    }

    #[tokio::test]
    async fn the_group_of_the_server_is_refused_where_it_names_another_one() {
        let path = std::env::temp_dir().join(format!("ratelimit-listener-{}", std::process::id()));
        let own = getegid().as_raw().to_string();
        let error = Listener::open(&Listen::Unix(path.clone()), Some(&own)).await.err().unwrap();
        assert!(error.to_string().starts_with(&format!("the group {own} is that of the server")), "{error:#}");
        assert!(!path.exists());
    }
}
