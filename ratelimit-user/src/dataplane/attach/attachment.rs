//! The interfaces that carry the program: one pinned link for each.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use aya::programs::{Xdp, XdpMode};
use ratelimit_common::rules::rule::CONFIG;

use crate::dataplane::{
    Error,
    attach::{foreign_program, link, undo::AttachUndo},
    error::{Tried as _, at},
    pins::{layout, link_name},
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
            let (attached_name, origin) = link_name::read(&pin);
            let (name, mode) = seen.map_or((attached_name, None), |(name, mode)| (name, Some(mode)));
            attachments.push(Attachment { name, mode, is_gone: index.is_none(), program_id, index, origin, pin });
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

    pub(crate) fn pins(&self) -> Result<Vec<PathBuf>, Error> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(at(&self.folder)(error)),
        };
        let mut pins = Vec::new();
        for entry in entries {
            pins.push(entry.map_err(at(&self.folder))?.path());
        }
        pins.sort();
        Ok(pins)
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
            (Ok(pin), removed) => Ok(AttachUndo { interface, pin, removed, is_detached: false }),
            (Err(error), None) => Err(error),
            (Err(error), Some(removed)) => {
                removed.restore(&interface)?;
                Err(error)
            }
        }
    }

    fn attach_free(&self, program: &mut Xdp, interface: &Interface, how: How) -> Result<PathBuf, Error> {
        fs::create_dir_all(&self.folder).map_err(at(&self.folder))?;
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
        let link = match native {
            Some(link) => link,
            None => link::attach(program, interface, XdpMode::Skb)?,
        };
        let id = link.info().tried("cannot read a link")?.id();
        let pin = self.folder.join(link_name::of(&interface.name, how.origin, id));
        // If pinning fails, dropping the link detaches the program.
        link.pin(&pin).tried("cannot pin the link")?;
        Ok(pin)
    }

    /// Removes the pins of links whose interfaces were deleted.
    ///
    /// Pins of a configuration file stay, so that `status` shows the missing interface, until an interface of this name
    /// is attached.
    fn forget_deleted(&self, attached: &str) -> Result<(), Error> {
        for pin in self.pins()? {
            let (name, origin) = link_name::read(&pin);
            if (origin != CONFIG || name == attached) && Link::from_pin(&pin)?.interface.is_none() {
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
        self.pins()?.iter().try_for_each(|pin| {
            link::put(programs.of_any_version(first_header(pin, &interfaces, raw)), pin)
        })
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
