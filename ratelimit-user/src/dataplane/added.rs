//! What an attach has done to an interface, and how to undo it.

use std::path::PathBuf;

use super::{Error, attachment::remove, interface::Interface, takeover::Removed};

/// An attachment that can still be undone.
pub struct Added {
    pub(super) interface: Interface,
    pub(super) pin: PathBuf,
    /// The program that gave way, until it is back.
    pub(super) removed: Option<Removed>,
    /// Whether [`Self::take_back`] has detached it.
    pub(super) is_detached: bool,
}

impl Added {
    /// Name of the interface when it was attached.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.interface.name
    }

    /// Undoes [`Attachments::attach`](super::attachment::Attachments::attach), unless somebody has detached it meanwhile. It needs no lock, and goes on
    /// with what it could not do before.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`], [`Error::Path`] or [`Error::Netlink`] where the kernel refuses.
    pub fn take_back(&mut self) -> Result<(), Error> {
        if !self.is_detached && !self.pin.exists() {
            return Ok(());
        }
        remove(&self.pin)?;
        self.is_detached = true;
        if let Some(removed) = &self.removed {
            removed.restore(&self.interface)?;
        }
        self.removed = None;
        Ok(())
    }
}
