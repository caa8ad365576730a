//! The links between the program and the interfaces, one pin each.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use aya::programs::{
    ProgramError, Xdp, XdpMode,
    links::{FdLink, PinnedLink},
    xdp::{XdpError, XdpLink},
};

use ratelimit_common::rules::rule::CONFIG;

use crate::dataplane::{
    Error,
    attach::{foreign_program, undo::Added},
    error::{Tried as _, at},
    instance::open::remove_if_there,
    pins::link_name,
    program::loader::FRAGS_SINCE,
    sys::{
        bpf::Link,
        host,
        interface::{self, Attached, Interface},
    },
};

/// The usual MTU, which every driver takes in one buffer.
const MTU_WITHOUT_FRAGS: u32 = 1_500;

/// Where the program is to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// In the driver, or not at all.
    Native,
    /// In the network stack.
    Generic,
    /// In the driver if it can, else in the network stack.
    Auto,
}

/// How to attach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct How {
    /// Where the program runs.
    pub mode: Mode,
    /// Whether another program gives way.
    pub replace: bool,
    /// For whom: an origin of [`ratelimit_common::rules::rule`].
    pub origin: u8,
}

/// One interface that the program is attached to.
#[derive(Debug, Clone)]
pub struct Attachment {
    /// Name of the interface now; the name it had when it was attached where it cannot be seen from this network namespace.
    pub name: String,
    /// How it is attached, as far as it can be seen from this network namespace.
    pub mode: Option<Attached>,
    /// Whether the link has lost its interface: that was deleted, or somebody detached the link.
    pub is_gone: bool,
    /// The program.
    pub program_id: u32,
    /// Index of the interface; none where it was deleted.
    pub index: Option<u32>,
    /// Who attached it: an origin of [`ratelimit_common::rules::rule`].
    pub origin: u8,
    pin: PathBuf,
}

impl Attachment {
    /// Detaches it, whatever name its interface has.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] or [`Error::Path`] where the kernel refuses.
    pub fn detach(&self) -> Result<(), Error> {
        remove(&self.pin)
    }
}

/// The folder of the pinned links.
#[derive(Debug, Clone)]
pub struct Attachments {
    folder: PathBuf,
}

impl Attachments {
    pub(crate) fn in_folder(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// All attachments, by name.
    ///
    /// # Errors
    ///
    /// [`Error::Path`] or [`Error::Bpf`] where a pin cannot be read.
    pub fn list(&self) -> Result<Vec<Attachment>, Error> {
        let interfaces = interface::list()?;
        let mut attachments = Vec::new();
        for pin in self.pins()? {
            let Link { program_id, interface: index, .. } = Link::from_pin(&pin)?;
            // The same number may belong to another interface in this namespace, but not with our program on it.
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

    /// Names of the interfaces.
    pub(crate) fn names(&self) -> Result<Vec<String>, Error> {
        Ok(self.list()?.into_iter().map(|attachment| attachment.name).collect())
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
    /// [`Error::Taken`], [`Error::NoNativeXdp`] or [`Error::Attach`]; the interface then has what it had before.
    pub fn attach(&self, program: &mut Xdp, interface: Interface, how: How) -> Result<Added, Error> {
        let removed = match interface.program {
            Some(other) if how.replace => Some(foreign_program::remove(&interface, other)?),
            Some(other) => return Err(foreign_program::taken(&interface, other.id)),
            None => None,
        };
        match (self.attach_free(program, &interface, how), removed) {
            (Ok(pin), removed) => Ok(Added { interface, pin, removed, is_detached: false }),
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
            Mode::Native => Some(link(program, interface, XdpMode::Driver)?),
            Mode::Auto => match link(program, interface, XdpMode::Driver) {
                Ok(link) => Some(link),
                Err(Error::NoNativeXdp { .. } | Error::Mtu { .. }) => None,
                Err(error) => return Err(error),
            },
        };
        let link = match native {
            Some(link) => link,
            None => link(program, interface, XdpMode::Skb)?,
        };
        let id = link.info().tried("cannot read a link")?.id();
        let pin = self.folder.join(link_name::of(&interface.name, how.origin, id));
        // Where pinning fails, the link is dropped, and the program detached with it.
        link.pin(&pin).tried("cannot pin the link")?;
        Ok(pin)
    }

    /// Removes the pins of links whose interfaces were deleted. Those of a file stay, so that it shows what it has lost, until it is there again by this
    /// name.
    fn forget_deleted(&self, attached: &str) -> Result<(), Error> {
        for pin in self.pins()? {
            let (name, origin) = link_name::read(&pin);
            if (origin != CONFIG || name == attached) && Link::from_pin(&pin)?.interface.is_none() {
                fs::remove_file(&pin).map_err(at(&pin))?;
            }
        }
        Ok(())
    }

    /// Detaches from the interfaces with these names, or from none if one of them does not carry our program.
    ///
    /// # Errors
    ///
    /// [`Error::NotAttachedTo`] with the first that does not.
    pub fn detach(&self, names: &[String]) -> Result<(), Error> {
        let attachments = self.list()?;
        let find = |name: &String| {
            let named = || attachments.iter().filter(|attachment| attachment.name == *name);
            // One that can be seen has the name now, the others had it once.
            let found = named().find(|attachment| attachment.mode.is_some()).or_else(|| named().next());
            found.ok_or_else(|| Error::NotAttachedTo { name: name.clone() })
        };
        let found: Vec<&Attachment> = names.iter().map(find).collect::<Result<_, _>>()?;
        found.iter().try_for_each(|attachment| attachment.detach())
    }

    /// Detaches from every interface.
    pub(crate) fn detach_all(&self) -> Result<(), Error> {
        self.pins()?.iter().try_for_each(|pin| remove(pin))
    }

    /// Puts `program` on every link. Where one refuses, those before it have it.
    pub(crate) fn replace(&self, program: &mut Xdp) -> Result<(), Error> {
        self.pins()?.iter().try_for_each(|pin| put(program, pin))
    }
}

/// The kernel may free a link some time after its last holder has gone, but detaches it at once. Of two that remove the
/// same, the second finds nothing to do.
pub(crate) fn remove(pin: &Path) -> Result<(), Error> {
    let remove = || {
        Link::from_pin(pin)?.detach()?;
        remove_if_there(pin, |path| fs::remove_file(path))
    };
    remove().or_else(|error| if pin.exists() { Err(error) } else { Ok(()) })
}

fn put(program: &mut Xdp, pin: &Path) -> Result<(), Error> {
    // Whoever takes an attach back does not wait for the lock.
    let is_gone = || !pin.exists() || Link::from_pin(pin).is_ok_and(|link| link.interface.is_none());
    put_on(program, pin).or_else(|error| if is_gone() { Ok(()) } else { Err(error) })
}

fn put_on(program: &mut Xdp, pin: &Path) -> Result<(), Error> {
    // A link whose interface was deleted takes no other program, and needs none.
    if Link::from_pin(pin)?.interface.is_none() {
        return Ok(());
    }
    let link = FdLink::from(PinnedLink::from_pin(pin).tried("cannot open a pinned link")?);
    let link = XdpLink::try_from(link).tried("cannot replace the program on a link")?;
    let id = program.attach_to_link(link).tried("cannot replace the program on a link")?;
    // The pin keeps the link; what aya holds must not detach it when the program is dropped.
    drop(program.take_link(id).tried("cannot replace the program on a link")?);
    Ok(())
}

fn link(program: &mut Xdp, interface: &Interface, mode: XdpMode) -> Result<FdLink, Error> {
    let name = || interface.name.clone();
    let refused = |error: ProgramError| match &error {
        ProgramError::SyscallError(call) => match call.io_error.raw_os_error() {
            Some(libc::EOPNOTSUPP) => Error::NoNativeXdp { name: name() },
            Some(libc::EBUSY | libc::EEXIST) => Error::TakenMeanwhile { name: name() },
            Some(code) => not_attached(interface, io::Error::from_raw_os_error(code)),
            None => Error::bpf("cannot attach")(&error),
        },
        // On EINVAL aya tries once more by netlink, which gives the kernel's own words.
        ProgramError::XdpError(XdpError::NetlinkError(source)) => {
            not_attached(interface, io::Error::other(source.to_string()))
        }
        _ => Error::bpf("cannot attach")(&error),
    };
    let id = program.attach_to_if_index(interface.index, mode).map_err(refused)?;
    let link = program.take_link(id).tried("cannot attach")?;
    FdLink::try_from(link).tried("this kernel attached without a link, which cannot be pinned")
}

/// The likely reason why a driver that has native XDP refuses.
fn not_attached(interface: &Interface, cause: io::Error) -> Error {
    let Interface { mtu, .. } = *interface;
    let name = interface.name.clone();
    if mtu <= MTU_WITHOUT_FRAGS {
        return Error::Attach { name, cause };
    }
    let place = if host::kernel_is_at_least(FRAGS_SINCE) { "in its driver" } else { "before Linux 5.18" };
    Error::Mtu { name, mtu, place, cause }
}
