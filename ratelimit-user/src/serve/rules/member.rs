//! This server in its fleet.

use std::sync::Arc;

use tokio::runtime::Handle;

use crate::serve::in_fleet::{InFleet, Link};

/// This server in its fleet.
#[derive(Clone)]
pub(in crate::serve) struct Member {
    /// What others call this server.
    pub(in crate::serve) name: String,
    pub(in crate::serve) link: Link,
    pub(in crate::serve) runtime: Handle,
    pub(in crate::serve) shown: Arc<InFleet>,
}
