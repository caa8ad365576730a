//! The XDP program of another tool on an interface: its name, its removal and its return.
//!
//! The kernel attaches a link only to an interface without a program. So the other program is removed just before. It is
//! pinned meanwhile, and the next command restores it if this one is killed.

use std::{
    fmt,
    os::fd::AsFd as _,
    path::{Path, PathBuf},
};

use aya::programs::{ProgramFd, Xdp};
use aya_obj::programs::XdpAttachType;

use crate::{
    Error,
    attach::{link, loaded, occupant::Occupant},
    error::Tried as _,
    pins::{layout, listing::Listing, replaced_name::ReplacedName},
    sys::{
        bpf::link::Link,
        host,
        interface::{self, Interface, Program},
    },
};

/// Returns the error that names the program on an interface.
pub fn taken(interface: &Interface, program: Program) -> Error {
    Occupant::of(interface, program).taken()
}

/// The program of another tool, which can be replaced and restored.
pub struct ForeignProgram {
    program: Program,
    fd: ProgramFd,
    /// Links of this program to interfaces with this index. Those of other network namespaces look the same.
    links: Vec<Link>,
}

impl fmt::Display for ForeignProgram {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Program { id, mode } = self.program;
        write!(out, "the XDP program {:?} (id {id}, {})", loaded::program_name(id), mode.name())
    }
}

impl ForeignProgram {
    /// Opens the program on an interface, and its link.
    pub fn open(interface: &Interface, program: Program) -> Result<Self, Error> {
        // The kernel frees a program without holders.
        let info = loaded::info(program.id).ok_or_else(|| taken(interface, program))?;
        let fd = info.fd().tried("cannot open the program that is to be replaced")?;
        Ok(Self { program, fd, links: loaded::links_of(program.id, interface.index)? })
    }

    /// Pins it in the folder of the pins until it is forgotten.
    pub fn keep(&self, pins: &Path, index: u32) -> Result<Kept, Error> {
        let name = ReplacedName { index, mode: self.program.mode, namespace: host::network_namespace()? };
        let pin = pins.join(name.file());
        layout::remove_file(&pin)?;
        link::pin_program(&self.fd, &pin)?;
        Ok(Kept(pin))
    }

    /// Removes it from the interface.
    pub fn remove(&self, interface: &Interface) -> Result<(), Error> {
        // The kernel refuses this for a program with a link.
        let removed = interface::remove_program(interface.index, self.program.mode, Some(self.fd.as_fd()));
        match (&removed, &self.links[..]) {
            (Ok(()), _) | (Err(_), []) => removed,
            (Err(_), [link]) => link.detach(),
            (Err(_), _) => Err(Error::Attach {
                name: interface.name.clone(),
                cause: format!("program {} is also on interfaces of other network namespaces", self.program.id),
                advice: ": remove it from this one with the tool that has attached it, then attach again".to_owned(),
            }),
        }
    }

    /// Attaches it again to an interface without a program. It uses netlink.
    pub fn restore(&self, interface: &Interface) -> Result<(), Error> {
        interface::set_program(interface.index, self.program.mode, self.fd.as_fd())
    }
}

/// The pin of a program that is being replaced.
pub struct Kept(PathBuf);

impl Kept {
    /// Removes the pin.
    pub fn forget(&self) -> Result<(), Error> {
        layout::remove_file(&self.0)
    }

    /// Removes the pin, unless the interface has no program.
    pub fn forget_unless_bare(self, index: u32) -> Result<(), Error> {
        let interface = interface::list()?.into_iter().find(|interface| interface.index == index);
        let is_bare = interface.is_some_and(|interface| interface.program.is_none());
        if is_bare { Ok(()) } else { self.forget() }
    }
}

/// Restores the programs that a killed command was replacing. What fails is tried again by the next command. Programs of
/// other network namespaces stay until a command runs there.
pub fn recover(pins: &Path, listing: &Listing) -> Result<(), Error> {
    for name in listing.names().filter_map(ReplacedName::read) {
        if name.namespace != host::network_namespace()? {
            continue;
        }
        let pin = pins.join(name.file());
        let interface = interface::list()?.into_iter().find(|interface| interface.index == name.index);
        let is_bare = interface.is_some_and(|interface| interface.program.is_none());
        if !is_bare || restore_pinned(&pin, name).is_ok() {
            layout::remove_file(&pin)?;
        }
    }
    Ok(())
}

fn restore_pinned(pin: &Path, ReplacedName { index, mode, .. }: ReplacedName) -> Result<(), Error> {
    let program = Xdp::from_pin(pin, XdpAttachType::Interface).tried("cannot open a program")?;
    let program = program.fd().tried("cannot open a program")?.as_fd();
    interface::set_program(index, mode, program)
}
