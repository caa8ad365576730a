//! The interfaces that carry the program: one pinned link for each.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use aya::programs::{Xdp, XdpMode};
use ratelimit_common::rules::rule::CONFIG;

use crate::dataplane::{
    Error,
    attach::{foreign_program, link, undo::AttachUndo},
    error::{Tried as _, at},
    pins::{layout, link_name::LinkName},
    program::programs::Programs,
    sys::{
        bpf::Link,
        interface::{self, Attached, Interface},
        link_type::FirstHeader,
    },
};

/// Where the program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// In the driver. Attaching fails if the driver has no native XDP.
    Native,
    /// In the network stack.
    Generic,
    /// In the driver if it has native XDP, otherwise in the network stack.
    Auto,
}

/// How to attach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct How {
    /// Where the program runs.
    pub mode: Mode,
    /// Whether to remove another program from the interface.
    pub replace: bool,
    /// Origin of the attachment: one of [`ratelimit_common::rules::rule`].
    pub origin: u8,
}

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
    pub(crate) recorded: LinkName,
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
    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.mode.is_some() && self.name == name
    }

    /// Returns whether the interface that had this name was deleted, or has got another name.
    pub(crate) fn has_lost(&self, name: &str) -> bool {
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
    pub(crate) fn in_folder(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
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
        Ok(attachments)
    }

    /// Returns whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        layout::is_empty(&self.folder)
    }

    /// Returns the names of the interfaces.
    pub(crate) fn names(&self) -> Result<Vec<String>, Error> {
        Ok(self.list()?.into_iter().map(|attachment| attachment.name).collect())
    }

    /// Returns the indices of the interfaces that still exist.
    pub(crate) fn indices(&self) -> Result<BTreeSet<u32>, Error> {
        let links = self.pins()?.into_iter().map(|pin| Ok(Link::from_pin(&pin)?.interface));
        links.filter_map(Result::transpose).collect()
    }

    /// Returns the pins of all links, in order.
    pub(crate) fn pins(&self) -> Result<Vec<PathBuf>, Error> {
        link::pins(&self.folder)
    }

    /// Attaches `program` to an interface and pins the link.
    ///
    /// # Errors
    ///
    /// [`Error::Taken`], [`Error::NoNativeXdp`] or [`Error::Attach`]. The interface then carries the same program as
    /// before.
    pub fn attach(&self, program: &mut Xdp, interface: Interface, how: How) -> Result<AttachUndo, Error> {
        let removed = match interface.program {
            Some(other) if how.replace => Some(foreign_program::remove(&interface, other)?),
            Some(other) => return Err(foreign_program::taken(&interface, other.id)),
            None => None,
        };
        match (self.attach_free(program, &interface, how), removed) {
            (Ok(link), removed) => {
                let folder = self.folder.clone();
                Ok(AttachUndo { interface, folder, link, removed, is_detached: false })
            }
            (Err(error), None) => Err(error),
            (Err(error), Some(removed)) => {
                removed.restore(&interface)?;
                Err(error)
            }
        }
    }

    /// Attaches to an interface without a program, and returns the id of the link.
    fn attach_free(&self, program: &mut Xdp, interface: &Interface, how: How) -> Result<u32, Error> {
        layout::create_folder(&self.folder)?;
        self.forget_deleted(&interface.name)?;
        let native = match how.mode {
            Mode::Generic => None,
            Mode::Native => Some(link::attach(program, interface, XdpMode::Driver)?),
            Mode::Auto => match link::attach(program, interface, XdpMode::Driver) {
                Ok(link) => Some(link),
                Err(Error::NoNativeXdp { .. } | Error::Mtu { .. }) => None,
                Err(error) => return Err(error),
            },
        };
        let is_generic = native.is_none();
        let link = match native {
            Some(link) => link,
            None => link::attach(program, interface, XdpMode::Skb)?,
        };
        let id = link.info().tried("cannot read a link")?.id();
        let (interface, origin) = (interface.name.clone(), how.origin);
        let name = LinkName { interface, origin, is_listed: false, is_generic, link: id };
        // If pinning fails, dropping the link detaches the program.
        link.pin(self.folder.join(name.file())).tried("cannot pin the link")?;
        Ok(id)
    }

    /// Records in the names of pins what a configuration file lists, and the present names of interfaces.
    ///
    /// A pin keeps the name of a listed interface until an interface of that name is attached. So one that comes back
    /// under that name is known to be missing.
    ///
    /// # Errors
    ///
    /// [`Error::Path`] if a pin cannot be renamed.
    pub(crate) fn record(&self, listed: &[String]) -> Result<(), Error> {
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
    /// [`Error::NotAttachedTo`] with the first interface that does not carry our program.
    pub fn detach(&self, names: &[String]) -> Result<(), Error> {
        let attachments = self.list()?;
        let find = |name: &String| {
            let named = || attachments.iter().filter(|attachment| attachment.name == *name);
            // An interface of this namespace has the name now. Others had it when they were attached.
            let found = named().find(|attachment| attachment.mode.is_some()).or_else(|| named().next());
            found.ok_or_else(|| Error::NotAttachedTo { name: name.clone() })
        };
        let found: Vec<&Attachment> = names.iter().map(find).collect::<Result<_, _>>()?;
        found.iter().try_for_each(|attachment| attachment.detach())
    }

    /// Detaches from every interface.
    pub(crate) fn detach_all(&self) -> Result<(), Error> {
        self.pins()?.iter().try_for_each(|pin| link::remove(pin))
    }

    /// Puts on every link the program for its interface. After a failure, the links before the failed one carry it.
    ///
    /// `raw` are the programs that links without Ethernet headers carry, before and after.
    pub(crate) fn replace(&self, programs: &mut Programs, raw: &[Option<u32>]) -> Result<(), Error> {
        let interfaces = interface::list()?;
        self.pins()?
            .iter()
            .try_for_each(|pin| link::put(programs.of_any_version(first_header(pin, &interfaces, raw)), pin))
    }

    /// Returns whether an interface without Ethernet headers is attached. `raw` is the program for those.
    pub(crate) fn has_raw_ip(&self, raw: Option<u32>) -> Result<bool, Error> {
        let interfaces = interface::list()?;
        Ok(self.pins()?.iter().any(|pin| first_header(pin, &interfaces, &[raw]) == FirstHeader::Ip))
    }
}

/// Returns the first header of packets on a link. If its interface is in another network namespace, the present program
/// tells. A link without an interface gets no program, and an interface of an unknown type keeps the one for Ethernet.
fn first_header(pin: &Path, interfaces: &[Interface], raw: &[Option<u32>]) -> FirstHeader {
    let Ok(Link { program_id, interface: Some(index), .. }) = Link::from_pin(pin) else { return FirstHeader::Ethernet };
    let is_seen = |interface: &&Interface| {
        interface.index == index && interface.program.is_some_and(|program| program.id == program_id)
    };
    match interfaces.iter().find(is_seen) {
        Some(interface) => interface.link_type.first_header().unwrap_or(FirstHeader::Ethernet),
        None if raw.contains(&Some(program_id)) => FirstHeader::Ip,
        None => FirstHeader::Ethernet,
    }
}
