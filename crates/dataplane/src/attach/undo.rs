//! Undoes an attach.

use std::path::PathBuf;

use crate::{
    Error,
    attach::{foreign_program::ForeignProgram, link},
    sys::interface::Interface,
};

/// An attachment that can still be undone.
pub struct AttachUndo {
    pub interface: Interface,
    /// Folder of the pinned links.
    pub folder: PathBuf,
    /// Id of the link. A daemon may rename its pin.
    pub link: u32,
    /// The program that was removed for ours, until it is restored.
    pub removed: Option<ForeignProgram>,
    /// Whether [`Self::take_back`] has detached it.
    pub is_detached: bool,
}

impl AttachUndo {
    /// Returns the name that the interface had when it was attached.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.interface.name
    }

    /// Returns the program that was removed for ours, in words.
    pub fn replaced(&self) -> Option<String> {
        self.removed.as_ref().map(ToString::to_string)
    }

    /// Undoes the attach, unless the interface has been detached meanwhile.
    ///
    /// Needs no lock. A second call continues after a failed one.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`], [`Error::Path`] or [`Error::Netlink`] if the kernel refuses.
    pub fn take_back(&mut self) -> Result<(), Error> {
        let mut kept = None;
        while let Some(pin) = link::pin_of(&self.folder, self.link)? {
            // If this process is killed before the other program is back, the next command restores it.
            let pins = self.folder.parent().unwrap_or(&self.folder);
            kept = self.removed.as_ref().and_then(|removed| removed.keep(pins, self.interface.index).ok());
            link::remove(&pin)?;
            self.is_detached = true;
        }
        if !self.is_detached {
            return Ok(());
        }
        if let Some(removed) = &self.removed {
            removed.restore(&self.interface)?;
        }
        self.removed = None;
        kept.map_or(Ok(()), |kept| kept.forget())
    }
}
