//! This server in its fleet.

use std::sync::Arc;

use tokio::{runtime::Handle, sync::watch};

use crate::{fleet::engine::Engine, serve::in_fleet::InFleet};

/// The engine, while it answers.
pub(in crate::serve) type Link = watch::Receiver<Option<Engine>>;

/// This server in its fleet.
#[derive(Clone)]
pub(in crate::serve) struct Member {
    /// What others call this server.
    pub(in crate::serve) name: String,
    pub(in crate::serve) link: Link,
    pub(in crate::serve) runtime: Handle,
    pub(in crate::serve) shown: Arc<InFleet>,
}
