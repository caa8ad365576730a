//! The links between the program and the interfaces, one pin each.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use aya::programs::{
    ProgramError, Xdp, XdpMode,
    links::{FdLink, PinnedLink},
    xdp::XdpLink,
};

use super::{
    Error,
    bpf::Link,
    error::{Tried as _, at},
    interface::{self, Attached, Interface},
    takeover::{self, Removed},
};

/// How to attach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// In the driver, or not at all.
    Native,
    /// In the network stack.
    Generic,
    /// In the driver if it can, else in the network stack.
    Auto,
}

/// One interface that the program is attached to.
#[derive(Debug, Clone)]
pub struct Attachment {
    /// Name of the interface now; the name it had when it was attached where it cannot be seen from this network namespace.
    pub name: String,
    /// How it is attached, as far as it can be seen.
    pub mode: Option<Attached>,
    /// The program.
    pub program_id: u32,
    pin: PathBuf,
}

/// An attachment that can still be undone.
pub struct Added {
    interface: Interface,
    removed: Option<Removed>,
}

/// The folder of the pinned links.
#[derive(Debug)]
pub struct Attachments {
    folder: PathBuf,
}

impl Attachments {
    pub(super) fn in_folder(pins: &Path) -> Self {
        Self { folder: pins.join("links") }
    }

    /// All attachments, by name.
    ///
    /// # Errors
    ///
    /// [`Error::Path`] or [`Error::Bpf`] where a pin cannot be read.
    pub fn list(&self) -> Result<Vec<Attachment>, Error> {
        let interfaces = interface::list()?;
        let mut attachments = Vec::new();
        for name in self.names()? {
            let pin = self.pin(&name);
            let Link { program_id, interface: index, .. } = Link::from_pin(&pin)?;
            // The same number may belong to another interface in this namespace, but not with our program on it.
            let seen = interfaces.iter().find_map(|interface| {
                let program = interface.program.filter(|program| program.id == program_id)?;
                (Some(interface.index) == index).then(|| (interface.name.clone(), program.mode))
            });
            let (name, mode) = seen.map_or((name, None), |(name, mode)| (name, Some(mode)));
            attachments.push(Attachment { name, mode, program_id, pin });
        }
        Ok(attachments)
    }

    /// The pin of an interface. Bpffs reserves the dots that names of VLAN interfaces have.
    fn pin(&self, name: &str) -> PathBuf {
        self.folder.join(name.replace('%', "%25").replace('.', "%2E"))
    }

    /// Names that the interfaces had when they were attached.
    pub(super) fn names(&self) -> Result<Vec<String>, Error> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(at(&self.folder)(error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let file = entry.map_err(at(&self.folder))?.file_name();
            names.push(file.to_string_lossy().replace("%2E", ".").replace("%25", "%"));
        }
        names.sort();
        Ok(names)
    }

    /// Attaches `program` to an interface and pins the link. With `replace`, another program there gives way.
    ///
    /// # Errors
    ///
    /// [`Error::Taken`], [`Error::NoNativeXdp`] or [`Error::Attach`]; the interface then has what it had before.
    pub fn attach(&self, program: &mut Xdp, interface: Interface, mode: Mode, replace: bool) -> Result<Added, Error> {
        let removed = match interface.program {
            Some(other) if replace => Some(takeover::remove(&interface, other)?),
            Some(other) => return Err(takeover::taken(&interface, other.id)),
            None => None,
        };
        match (self.attach_free(program, &interface, mode), removed) {
            (Ok(()), removed) => Ok(Added { interface, removed }),
            (Err(error), None) => Err(error),
            (Err(error), Some(removed)) => {
                removed.restore(&interface)?;
                Err(error)
            }
        }
    }

    /// Undoes [`Self::attach`].
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] or [`Error::Netlink`] where the kernel refuses.
    pub fn take_back(&self, added: Added) -> Result<(), Error> {
        let Added { interface, removed } = added;
        self.detach(&interface.name)?;
        removed.map_or(Ok(()), |removed| removed.restore(&interface))
    }

    fn attach_free(&self, program: &mut Xdp, interface: &Interface, mode: Mode) -> Result<(), Error> {
        fs::create_dir_all(&self.folder).map_err(at(&self.folder))?;
        let pin = self.pin(&interface.name);
        // The interface carries no program, so a pin of its name is what an earlier interface has left.
        if pin.exists() {
            fs::remove_file(&pin).map_err(at(&pin))?;
        }
        let native = match mode {
            Mode::Generic => None,
            Mode::Native => Some(link(program, interface, XdpMode::Driver)?),
            Mode::Auto => match link(program, interface, XdpMode::Driver) {
                Ok(link) => Some(link),
                Err(Error::NoNativeXdp { .. }) => None,
                Err(error) => return Err(error),
            },
        };
        let link = match native {
            Some(link) => link,
            None => link(program, interface, XdpMode::Skb)?,
        };
        // Where pinning fails, the link is dropped, and the program detached with it.
        link.pin(pin).tried("cannot pin the link")?;
        Ok(())
    }

    /// Detaches from the interface with this name.
    ///
    /// # Errors
    ///
    /// [`Error::NotAttachedTo`] where it does not carry our program.
    pub fn detach(&self, name: &str) -> Result<(), Error> {
        let attachments = self.list()?;
        let found = attachments.iter().find(|attachment| attachment.name == name || attachment.pin == self.pin(name));
        let attachment = found.ok_or_else(|| Error::NotAttachedTo { name: name.to_owned() })?;
        // The kernel may free a link some time after its last holder has gone, but detaches it at once.
        Link::from_pin(&attachment.pin)?.detach()?;
        fs::remove_file(&attachment.pin).map_err(at(&attachment.pin))
    }

    /// Puts `program` in the place of `old` on every link. Where one refuses, those before it get `old` back.
    pub(super) fn replace(&self, program: &mut Xdp, mut old: Xdp) -> Result<(), Error> {
        let mut done: Vec<PathBuf> = Vec::new();
        for name in self.names()? {
            let pin = self.pin(&name);
            if let Err(error) = put(program, &pin) {
                for pin in &done {
                    put(&mut old, pin)?;
                }
                return Err(error);
            }
            done.push(pin);
        }
        Ok(())
    }
}

fn put(program: &mut Xdp, pin: &Path) -> Result<(), Error> {
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
            Some(code) => Error::Attach { name: name(), source: io::Error::from_raw_os_error(code) },
            None => Error::bpf("cannot attach")(&error),
        },
        _ => Error::bpf("cannot attach")(&error),
    };
    let id = program.attach_to_if_index(interface.index, mode).map_err(refused)?;
    let link = program.take_link(id).tried("cannot attach")?;
    FdLink::try_from(link).tried("this kernel attached without a link, which cannot be pinned")
}
