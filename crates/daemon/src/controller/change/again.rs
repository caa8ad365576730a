//! Which failures are tried again.

use ratelimit_dataplane::Error;

use crate::config::Config;

/// Returns whether applying the file again can succeed at once. Opening the instance again completes what is unfinished.
/// An interface that has just gone can be awaited.
pub fn can_succeed_now(error: &anyhow::Error, config: &Config) -> bool {
    match error.downcast_ref() {
        Some(Error::Unfinished { .. } | Error::Written { .. }) => true,
        Some(Error::UnknownInterface { name, .. }) => {
            config.interfaces.iter().any(|interface| interface.wait && interface.name == *name)
        }
        _ => false,
    }
}

/// Returns whether another command had the lock of the instance for too long.
pub fn is_locked(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Error::Locked { .. }))
}
