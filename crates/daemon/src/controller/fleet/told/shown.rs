//! What hosts have told each other, for other threads.

use std::sync::{Arc, Mutex, PoisonError};

use ratelimit_protocol::fleet::{Denies, SharedRules};

/// What hosts have told each other.
#[derive(Debug, Clone, Default)]
pub(in crate::controller::fleet) struct Told {
    /// Denied sources. None if this host neither tells nor accepts them.
    pub(in crate::controller::fleet) denies: Option<Denies>,
    /// Shared rules. None if this host does not accept them.
    pub(in crate::controller::fleet) rules: Option<SharedRules>,
}

/// The same, for other threads.
#[derive(Debug, Clone, Default)]
pub(in crate::controller::fleet) struct Shown(Arc<Mutex<Told>>);

impl Shown {
    /// Returns what was shown last.
    pub(in crate::controller::fleet) fn read(&self) -> Told {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes what is shown.
    pub(super) fn change(&self, change: impl FnOnce(&mut Told)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
