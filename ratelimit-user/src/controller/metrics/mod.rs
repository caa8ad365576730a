//! Numbers for monitoring: `/metrics` on a socket in the daemon's folder, and on an address where the file says so.
//!
//! It has a thread of its own, so that neither those who ask nor the daemon's work wait for each other. Numbers are read without the instance's lock.

pub mod client;
mod families;
mod listener;
mod page;
mod scraper;
mod server;

use std::{
    net::{SocketAddr, TcpListener},
    os::unix::net::UnixListener,
    path::Path,
    sync::Arc,
    thread,
};

use anyhow::{Context as _, Result};
use tokio::{runtime::Handle, sync::oneshot, task::JoinHandle};

use self::{
    listener::Bound,
    scraper::Scraper,
    server::{Door, serve},
};
use crate::config::metrics::{Listen, Metrics, Token};

/// What serves the numbers, until it is dropped.
pub(super) struct Service {
    scraper: Arc<Scraper>,
    handle: Handle,
    address: Option<Open>,
    /// Its thread ends when this is dropped.
    _stop: oneshot::Sender<()>,
}

/// What a file asks for, with everything that could fail already done.
pub(super) struct Prepared {
    sources: usize,
    address: Address,
}

enum Address {
    None,
    /// The one that is served already.
    Same(Option<Token>),
    Fresh(SocketAddr, TcpListener, Option<Token>),
}

/// An address that is served.
struct Open {
    address: SocketAddr,
    door: Arc<Door>,
    task: JoinHandle<()>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Service {
    /// Serves the numbers of the instance with these pins on a socket.
    pub(super) fn start(pins: &Path, socket: UnixListener) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let handle = runtime.handle().clone();
        let serves = move || {
            // Nothing is ever sent: it ends when the sender is dropped.
            let _ = runtime.block_on(stopped);
            runtime.shutdown_background();
        };
        thread::Builder::new().name("metrics".to_owned()).spawn(serves)?;
        let scraper = Arc::new(Scraper::new(pins));
        handle.spawn(serve(Bound::Unix(socket), Arc::default(), Arc::clone(&scraper)));
        Ok(Self { scraper, handle, address: None, _stop: stop })
    }

    /// Does what can fail of what a file asks for. Nothing has changed yet.
    pub(super) fn prepare(&self, wanted: &Metrics) -> Result<Prepared> {
        let address = match &wanted.listen {
            None => Address::None,
            Some(Listen { address, token }) => match &self.address {
                Some(open) if open.address == *address => Address::Same(token.clone()),
                _ => Address::Fresh(*address, self.bind(*address)?, token.clone()),
            },
        };
        Ok(Prepared { sources: wanted.sources, address })
    }

    fn bind(&self, address: SocketAddr) -> Result<TcpListener> {
        let bound = TcpListener::bind(address);
        bound.with_context(|| match &self.address {
            Some(open) if open.address.port() == address.port() => format!(
                "metrics: cannot listen on {address} while {} is served: take listen out of the file first, or choose another port",
                open.address
            ),
            _ => format!("metrics: cannot listen on {address}"),
        })
    }

    /// Does what was prepared.
    pub(super) fn commit(&mut self, Prepared { sources, address }: Prepared) {
        self.scraper.name_sources(sources);
        match (address, &self.address) {
            (Address::None, _) => self.address = None,
            (Address::Same(token), Some(open)) => open.door.change(token),
            (Address::Same(_), None) => {}
            (Address::Fresh(address, listener, token), _) => {
                let door = Arc::new(Door::new(token));
                let task = self.handle.spawn(serve(Bound::Tcp(listener), Arc::clone(&door), Arc::clone(&self.scraper)));
                self.address = Some(Open { address, door, task });
            }
        }
    }

    /// Notes that the file was put in force at the start.
    pub(super) fn begin(&self) {
        self.scraper.begin();
    }

    /// Notes that the file was read again, and whether it is in force.
    pub(super) fn note_reload(&self, is_good: bool) {
        self.scraper.note_reload(is_good);
    }
}
