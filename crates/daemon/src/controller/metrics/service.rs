//! Serves metrics: on a socket of the daemon, and at an address of the file, which has a thread of its own.
//!
//! An address is bound before a file is in force, and served afterwards. An address that is replaced keeps its token
//! until it is closed.

use std::{
    net::{SocketAddr, TcpListener},
    os::unix::net::UnixListener,
    path::Path,
    sync::Arc,
};

use anyhow::{Context as _, Result};

use super::{
    listener::Bound,
    scraper::{Scraper, Shown},
    server::{TokenCheck, serve},
};
use crate::{
    config::{
        daemon::metrics::{Listen, Metrics, Token},
        listed::Listed,
    },
    controller::tasks::{Task, Tasks},
};

/// Serves metrics until it is dropped.
pub struct Service {
    scraper: Arc<Scraper>,
    address: Option<Open>,
}

/// The metrics settings of a file. Every step that can fail is done.
pub struct Prepared {
    sources: usize,
    address: Address,
}

enum Address {
    None,
    /// The address that is served already.
    Same(Option<Token>),
    New(SocketAddr, TcpListener, Tasks, Option<Token>),
}

/// An address that is served. Dropping it closes the address.
struct Open {
    address: SocketAddr,
    check: Arc<TokenCheck>,
    /// It ends before the thread.
    _task: Task,
    _tasks: Tasks,
}

impl Service {
    /// Serves the metrics of the instance with these pins on a socket, in the runtime of the caller.
    pub fn start(pins: &Path, socket: UnixListener, shown: Shown) -> Self {
        let scraper = Arc::new(Scraper::new(pins, shown));
        tokio::spawn(serve(Bound::Unix(socket), Arc::default(), Arc::clone(&scraper)));
        Self { scraper, address: None }
    }

    /// Prepares the settings of a file: does every step that can fail, and changes nothing that is served.
    pub fn prepare(&self, requested: &Metrics) -> Result<Prepared> {
        let address = match &requested.listen {
            None => Address::None,
            Some(Listen { address, token }) => match &self.address {
                Some(open) if open.address == *address => Address::Same(token.clone()),
                _ => Address::New(*address, self.bind(*address)?, Tasks::start("metrics")?, token.clone()),
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

    /// Applies prepared settings, for a file that lists this.
    pub fn commit(&mut self, Prepared { sources, address }: Prepared, listed: Listed) {
        self.scraper.begin_file(sources, listed);
        match (address, &self.address) {
            (Address::None, _) => self.address = None,
            (Address::Same(token), Some(open)) => open.check.change(token),
            (Address::Same(_), None) => {}
            (Address::New(address, listener, tasks, token), _) => {
                let check = Arc::new(TokenCheck::new(token));
                let serves = serve(Bound::Tcp(listener), Arc::clone(&check), Arc::clone(&self.scraper));
                self.address = Some(Open { address, check, _task: tasks.begin(serves), _tasks: tasks });
            }
        }
    }

    /// Records that the file was applied at the start.
    pub fn begin(&self) {
        self.scraper.begin();
    }

    /// Records that the file was read again, and whether it was applied.
    pub fn record_reload(&self, is_good: bool) {
        self.scraper.record_reload(is_good);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::ErrorKind,
        net::{Ipv4Addr, TcpStream},
        os::{linux::net::SocketAddrExt as _, unix},
        process,
    };

    use super::*;

    #[tokio::test]
    async fn an_address_that_a_file_removes_refuses_connections_at_once() -> Result<()> {
        let name = unix::net::SocketAddr::from_abstract_name(format!("ratelimit-metrics-{}", process::id()))?;
        let mut service = Service::start(Path::new("/nonexistent"), UnixListener::bind_addr(&name)?, Shown::default());
        for _ in 0..1_000 {
            let listen = Listen { address: (Ipv4Addr::LOCALHOST, 0).into(), token: None };
            let added = service.prepare(&Metrics { listen: Some(listen), sources: 0 })?;
            let Address::New(_, listener, ..) = &added.address else { panic!("nothing listens") };
            let address = listener.local_addr()?;
            service.commit(added, Listed::default());
            service.commit(Prepared { sources: 0, address: Address::None }, Listed::default());
            let refused = TcpStream::connect(address).map_err(|error| error.kind()).err();
            assert_eq!(refused, Some(ErrorKind::ConnectionRefused));
        }
        Ok(())
    }
}
