//! The way to an engine: a server, or the other hosts.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use ratelimit_base::certificate_end::CertificateEnd;
use tokio::time::timeout;

use crate::{
    address::Address,
    engine::Engine,
    error::Error,
    gossip::{mesh::Mesh, settings::Settings},
};
use ratelimit_protocol::fleet::Places;

/// The longest time in which a server may answer a first call. What it sends meanwhile is kept in memory.
const HANDSHAKE: Duration = Duration::from_secs(2);

/// Where an engine is.
#[derive(Debug, Clone, PartialEq)]
pub enum Place {
    /// At a server.
    Server(Address),
    /// On each host.
    Hosts(Settings),
}

/// The way to an engine. Copies share what outlasts a connection.
#[derive(Clone)]
pub struct Way {
    place: Place,
    mesh: Arc<Mutex<Option<Mesh>>>,
}

impl Way {
    /// Returns the way to a place.
    #[must_use]
    pub fn to(place: Place) -> Self {
        Self { place, mesh: Arc::default() }
    }

    /// Connects within this time.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    ///
    /// # Errors
    ///
    /// Any [`Error`] but that of the URL.
    pub async fn connect(&self, patience: Duration) -> Result<Engine, Error> {
        match &self.place {
            Place::Server(address) => Engine::connect(address, patience.min(HANDSHAKE)).await,
            Place::Hosts(settings) => {
                let mesh = self.mesh(settings)?;
                // The first heartbeat fails without another host.
                let _ = timeout(patience, mesh.company()).await;
                Ok(Engine::of_hosts(mesh, patience))
            }
        }
    }

    /// Returns the socket. It stays open while no other host answers, so that two of them find each other.
    fn mesh(&self, settings: &Settings) -> Result<Mesh, Error> {
        let mut mesh = self.mesh.lock().unwrap_or_else(PoisonError::into_inner);
        match &*mesh {
            Some(mesh) => Ok(mesh.clone()),
            None => Ok(mesh.insert(Mesh::open(settings)?).clone()),
        }
    }

    /// Returns the other hosts. None with a server, or before the first call.
    #[must_use]
    pub fn places(&self) -> Option<Places> {
        let mesh = self.mesh.lock().unwrap_or_else(PoisonError::into_inner).clone();
        mesh.map(|mesh| mesh.places())
    }

    /// Returns the place, and how much of it answers.
    #[must_use]
    pub fn in_words(&self) -> String {
        let mesh = self.mesh.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match mesh.as_ref().map(Mesh::count) {
            Some([alive, all]) => format!("gossip ({alive} of {all} peers alive)"),
            None => self.place.to_string(),
        }
    }
}

impl Place {
    /// Returns when certificates of files end.
    #[must_use]
    pub fn ends(&self) -> Vec<CertificateEnd> {
        if let Self::Server(address) = self { address.ends() } else { Vec::new() }
    }
}

impl fmt::Display for Place {
    /// Writes hosts and ports, without passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(address) => address.fmt(f),
            Self::Hosts(settings) => settings.fmt(f),
        }
    }
}
