//! The thread that serves metrics, and changes of its address.
//!
//! An address is bound before a file is in force, and served afterwards. An address that is replaced keeps its token
//! until it is closed.

use std::{
    net::{SocketAddr, TcpListener},
    os::unix::net::UnixListener,
    path::Path,
    sync::Arc,
    thread,
};

use anyhow::{Context as _, Result};
use tokio::{runtime::Handle, sync::oneshot, task::JoinHandle};

use super::{
    listener::Bound,
    scraper::Scraper,
    server::{TokenCheck, serve},
};
use crate::config::metrics::{Listen, Metrics, Token};

/// Serves metrics until it is dropped.
pub(crate) struct Service {
    scraper: Arc<Scraper>,
    handle: Handle,
    address: Option<Open>,
    /// The thread ends when this is dropped.
    _stop: oneshot::Sender<()>,
}

/// The metrics settings of a file. Every step that can fail is done.
pub(crate) struct Prepared {
    sources: usize,
    address: Address,
}

enum Address {
    None,
    /// The address that is served already.
    Same(Option<Token>),
    New(SocketAddr, TcpListener, Option<Token>),
}

/// An address that is served.
struct Open {
    address: SocketAddr,
    check: Arc<TokenCheck>,
    task: JoinHandle<()>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Service {
    /// Serves the metrics of the instance with these pins on a socket.
    pub(crate) fn start(pins: &Path, socket: UnixListener) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let handle = runtime.handle().clone();
        let serves = move || {
            // Nothing is sent. The wait ends when the sender is dropped.
            let _ = runtime.block_on(stopped);
            runtime.shutdown_background();
        };
        thread::Builder::new().name("metrics".to_owned()).spawn(serves)?;
        let scraper = Arc::new(Scraper::new(pins));
        handle.spawn(serve(Bound::Unix(socket), Arc::default(), Arc::clone(&scraper)));
        Ok(Self { scraper, handle, address: None, _stop: stop })
    }

    /// Prepares the settings of a file: does every step that can fail, and changes nothing that is served.
    pub(crate) fn prepare(&self, requested: &Metrics) -> Result<Prepared> {
        let address = match &requested.listen {
            None => Address::None,
            Some(Listen { address, token }) => match &self.address {
                Some(open) if open.address == *address => Address::Same(token.clone()),
                _ => Address::New(*address, self.bind(*address)?, token.clone()),
            },
        };
        Ok(Prepared { sources: requested.sources, address })
    }

    fn bind(&self, address: SocketAddr) -> Result<TcpListener> {
        let bound = TcpListener::bind(address);
        bound.with_context(|| match &self.address {
            Some(open) if open.address.port() == address.port() => format!(
                "metrics: cannot listen on {address} while {} uses the port: remove listen from the file first, or choose another port",
                open.address
            ),
            _ => format!("metrics: cannot listen on {address}"),
        })
    }

    /// Applies prepared settings.
    pub(crate) fn commit(&mut self, Prepared { sources, address }: Prepared) {
        self.scraper.name_sources(sources);
        match (address, &self.address) {
            (Address::None, _) => self.address = None,
            (Address::Same(token), Some(open)) => open.check.change(token),
            (Address::Same(_), None) => {}
            (Address::New(address, listener, token), _) => {
                let check = Arc::new(TokenCheck::new(token));
                let task =
                    self.handle.spawn(serve(Bound::Tcp(listener), Arc::clone(&check), Arc::clone(&self.scraper)));
                self.address = Some(Open { address, check, task });
            }
        }
    }

    /// Records that the file was applied at the start.
    pub(crate) fn begin(&self) {
        self.scraper.begin();
    }

    /// Records that the file was read again, and whether it was applied.
    pub(crate) fn record_reload(&self, is_good: bool) {
        self.scraper.record_reload(is_good);
    }
}
