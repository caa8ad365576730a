//! Failures of the option `--netns`.

use std::io;

/// Why a network namespace cannot be entered.
#[derive(Debug, thiserror::Error)]
pub enum NamespaceError {
    /// It does not exist.
    #[error("--netns {0}: no such network namespace: `ip netns list` names them, or give the path of one")]
    Missing(String),
    /// The file is no network namespace.
    #[error("--netns {0}: this is not a network namespace: give a name that `ip netns list` shows, or the path of one")]
    Other(String),
    /// The kernel refused.
    #[error("--netns {name}: {cause}: entering a network namespace needs CAP_SYS_ADMIN, as root has it")]
    Refused {
        /// The name or the path.
        name: String,
        /// What the system said.
        cause: io::Error,
    },
}
