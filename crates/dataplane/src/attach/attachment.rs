//! The interfaces that carry the program: one pinned link for each.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use aya::programs::Xdp;
use ratelimit_common::rules::rule::CONFIG;

pub use super::how::{How, Mode};
use crate::{
    Error,
    attach::{
        foreign_program::{self, ForeignProgram},
        link,
        undo::AttachUndo,
        unlinked,
    },
    error::at,
    pins::{layout, link_name::LinkName, ours::Ours},
    sys::{
        bpf::{link::Link, pinned_object::PinnedObject},
        interface::{self, Attached, Interface, Program},
    },
};

/// One interface that the program is attached to.
#[derive(Debug, Clone)]
pub struct Attachment {
    /// Current name of the interface. If it is in another network namespace, its name when it was attached.
    pub name: String,
    /// How it is attached. None if the interface is in another network namespace.
    pub mode: Option<Attached>,
    /// Whether the link has no interface any more, because it was deleted or the link was detached.
    pub is_gone: bool,
    /// Id of the program.
    pub program_id: u32,
    /// Index of the interface. None if it was deleted.
    pub index: Option<u32>,
    /// Origin of the attachment: one of [`ratelimit_common::rules::rule`].
    pub origin: u8,
    /// What the name of its pin tells.
    pub recorded: LinkName,
    pin: PathBuf,
}

impl Attachment {
    /// Detaches the program from this interface.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] or [`Error::Path`] if the kernel refuses.
    pub fn detach(&self) -> Result<(), Error> {
        link::remove(&self.pin)
    }

    /// Returns whether the interface that now has this name in this network namespace carries the program.
    pub fn is_on(&self, name: &str) -> bool {
        self.mode.is_some() && self.name == name
    }

    /// Returns whether the interface is in shadow, although others may not be.
    #[must_use]
    pub fn is_shadow(&self) -> bool {
        self.recorded.is_shadow
    }

    /// Returns whether both have the same link.
    pub fn is_same(&self, other: &Self) -> bool {
        self.recorded.link == other.recorded.link
    }

    /// Records in the name of its pin whether the interface is in shadow, and returns the pin.
    pub fn record_shadow(&self, is_shadow: bool) -> Result<PathBuf, Error> {
        let pin = self.pin.with_file_name(LinkName { is_shadow, ..self.recorded.clone() }.file());
        if pin != self.pin {
            fs::rename(&self.pin, &pin).map_err(at(&pin))?;
        }
        Ok(pin)
    }

    /// Returns whether the interface that had this name was deleted, or has got another name.
    pub fn has_lost(&self, name: &str) -> bool {
        self.recorded.interface == name && (self.is_gone || self.mode.is_some() && self.name != name)
    }
}

/// The folder of the pinned links.
#[derive(Debug, Clone)]
pub struct Attachments {
    folder: PathBuf,
}

impl Attachments {
    /// Returns the attachments whose pins are in `folder`.
    pub fn in_folder(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// Returns the folder of the instance's pins.
    fn instance(&self) -> &Path {
        self.folder.parent().unwrap_or(&self.folder)
    }

    /// Lists all attachments, sorted by name.
    ///
    /// # Errors
    ///
    /// [`Error::Path`] or [`Error::Bpf`] if a pin cannot be read.
    pub fn list(&self) -> Result<Vec<Attachment>, Error> {
        let interfaces = interface::list()?;
        let mut attachments = Vec::new();
        for pin in self.pins()? {
            let Link { program_id, interface: index, .. } = Link::from_pin(&pin)?;
            // In this namespace, the index may belong to another interface. That one does not carry our program.
            let seen = interfaces.iter().find_map(|interface| {
                let program = interface.program.filter(|program| program.id == program_id)?;
                (Some(interface.index) == index).then(|| (interface.name.clone(), program.mode))
            });
            let recorded = LinkName::read(&pin);
            let (name, mode) = seen.map_or((recorded.interface.clone(), None), |(name, mode)| (name, Some(mode)));
            let (is_gone, origin) = (index.is_none(), recorded.origin);
            attachments.push(Attachment { name, mode, is_gone, program_id, index, origin, recorded, pin });
        }
        // The pins are in the order of the names when the interfaces were attached.
        attachments.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(attachments)
    }

    /// Returns whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        layout::is_empty(&self.folder)
    }

    /// Returns the indices of the interfaces that still exist.
    pub fn indices(&self) -> Result<BTreeSet<u32>, Error> {
        let links = self.pins()?.into_iter().map(|pin| Ok(Link::from_pin(&pin)?.interface));
        links.filter_map(Result::transpose).collect()
    }

    /// Returns the pins of all links, in order.
    pub fn pins(&self) -> Result<Vec<PathBuf>, Error> {
        link::pins(&self.folder)
    }

    /// Attaches `program` to an interface and pins the link.
    ///
    /// # Errors
    ///
    /// [`Error::Taken`], [`Error::NoNativeXdp`] or [`Error::Attach`]. The interface then carries the same program as
    /// before.
    pub fn attach(&self, program: &Xdp, interface: Interface, how: How) -> Result<AttachUndo, Error> {
        layout::create_folder(&self.folder)?;
        let (link, removed) = match interface.program {
            // Another instance that has given up its `--replace` puts a program back without a link.
            Some(other) if how.replace || Ours::of(self.instance())?.has_program(other.id) => {
                let (link, removed) = self.replace_foreign(program, &interface, other, how)?;
                (link, Some(removed))
            }
            Some(other) => return Err(foreign_program::taken(&interface, other)),
            None => (self.attach_free(program, &interface, how)?, None),
        };
        let mut undo = AttachUndo { interface, folder: self.folder.clone(), link, removed, is_detached: false };
        // A refused attach forgets nothing.
        match self.forget_deleted(undo.name()) {
            Ok(()) => Ok(undo),
            Err(error) => undo.take_back().and(Err(error)),
        }
    }

    /// Attaches in the place of another tool's program, and returns the id of the link.
    fn replace_foreign(
        &self,
        program: &Xdp,
        interface: &Interface,
        other: Program,
        how: How,
    ) -> Result<(u32, ForeignProgram), Error> {
        let foreign = ForeignProgram::open(interface, other)?;
        let kept = foreign.keep(self.instance(), interface.index)?;
        let attached = foreign.remove(interface).and_then(|()| self.attach_free(program, interface, how));
        let link = attached.map_err(|cause| match foreign.restore(interface) {
            Ok(()) => cause,
            Err(left) => Error::NotRestored { cause: Box::new(cause), left: Box::new(left) },
        });
        // If the other program is not back, its pin stays, and the next command tries again.
        let _ = kept.forget_unless_bare(interface.index);
        Ok((link?, foreign))
    }

    /// Attaches to an interface without a program, and returns the id of the link.
    fn attach_free(&self, program: &Xdp, interface: &Interface, how: How) -> Result<u32, Error> {
        let native = match how.mode {
            Mode::Generic => None,
            Mode::Native => Some(link::attach(program, interface, Attached::Native)?),
            Mode::Auto => match link::attach(program, interface, Attached::Native) {
                Ok(link) => Some(link),
                Err(Error::NoNativeXdp { .. }) => None,
                Err(error) => return Err(error),
            },
        };
        let is_generic = native.is_none();
        let link = match native {
            Some(link) => link,
            None => link::attach(program, interface, Attached::Generic)?,
        };
        let (interface, origin, is_shadow) = (interface.name.clone(), how.origin, how.shadow);
        let name = LinkName { interface, origin, is_listed: false, is_generic, is_shadow, link: link.id };
        // A link that is only dropped may stay for a moment.
        link.pin(&self.folder.join(name.file())).or_else(|error| link.detach().and(Err(error)))?;
        Ok(link.id)
    }

    /// Records in the names of pins what a configuration file lists, and the present names of interfaces.
    ///
    /// A pin keeps the name of a listed interface until an interface of that name is attached. So one that comes back
    /// under that name is known to be missing.
    ///
    /// # Errors
    ///
    /// [`Error::Path`] if a pin cannot be renamed.
    pub fn record(&self, listed: &[String]) -> Result<(), Error> {
        let attachments = self.list()?;
        let is_attached = |name: &str| attachments.iter().any(|one| one.is_on(name));
        for attachment in &attachments {
            let mut name = attachment.recorded.clone();
            if !listed.contains(&name.interface) || is_attached(&name.interface) {
                name.interface.clone_from(&attachment.name);
            }
            name.is_listed = name.origin != CONFIG && listed.contains(&name.interface);
            let pin = self.folder.join(name.file());
            if pin != attachment.pin {
                fs::rename(&attachment.pin, &pin).map_err(at(&pin))?;
            }
        }
        Ok(())
    }

    /// Removes the pins of links whose interfaces were deleted.
    ///
    /// Pins of interfaces that a configuration file lists stay until an interface of this name is attached. So `status`
    /// shows the missing interface, and the daemon knows it.
    fn forget_deleted(&self, attached: &str) -> Result<(), Error> {
        for pin in self.pins()? {
            let name = LinkName::read(&pin);
            if (!name.is_kept() || name.interface == attached) && Link::from_pin(&pin)?.interface.is_none() {
                fs::remove_file(&pin).map_err(at(&pin))?;
            }
        }
        Ok(())
    }

    /// Detaches from the interfaces with these names. If one of them does not carry our program, detaches from none.
    ///
    /// # Errors
    ///
    /// [`Error::NotAttachedTo`] with the first interface that does not carry our program, [`Error::Elsewhere`] if one of its
    /// name does in another network namespace.
    pub fn detach(&self, names: &[String]) -> Result<(), Error> {
        let attachments = self.list()?;
        let find = |name: &String| {
            let named = || attachments.iter().filter(|attachment| attachment.name == *name);
            // An interface of this namespace has the name now. Others had it when they were attached.
            let found = named().find(|attachment| attachment.mode.is_some());
            match found.or_else(|| named().find(|attachment| attachment.is_gone)) {
                Some(found) => Ok(found),
                None if named().next().is_some() => Err(Error::Elsewhere { name: name.clone() }),
                None => Err(Error::NotAttachedTo { name: name.clone() }),
            }
        };
        let found: Vec<&Attachment> = names.iter().map(find).collect::<Result<_, _>>()?;
        let lost = || found.iter().filter(|attachment| attachment.mode.is_none());
        if lost().next().is_some() {
            unlinked::remove(self.instance(), |interface| lost().any(|lost| lost.name == interface.name))?;
        }
        found.iter().try_for_each(|attachment| attachment.detach())
    }

    /// Detaches from every interface, and returns their names. Pins of anything else than links of this instance stay.
    pub fn detach_all(&self) -> Result<Vec<String>, Error> {
        let (ours, mut names) = (Ours::of(self.instance())?, Vec::new());
        for attachment in self.list()? {
            if let PinnedObject::Link { id, program } = PinnedObject::at(&attachment.pin)?
                && (attachment.recorded.link == id || ours.has_program(program))
            {
                link::remove(&attachment.pin)?;
                names.push(attachment.name);
            }
        }
        Ok(names)
    }
}
