//! Another tool's program on an interface that we are told to take.

use std::os::fd::{AsFd as _, AsRawFd as _};

use aya::programs::{ProgramFd, ProgramInfo, links::LinkType, loaded_links, loaded_programs};

use crate::dataplane::{
    Error,
    error::Tried as _,
    sys::{
        bpf::Link,
        interface::{self, Interface, Program},
    },
};

/// The error that names the program on an interface.
pub(crate) fn taken(interface: &Interface, id: u32) -> Error {
    Error::Taken { name: interface.name.clone(), program: program_name(id), id }
}

/// Name of the program with this id; empty where there is none.
#[must_use]
pub fn program_name(id: u32) -> String {
    info(id).and_then(|info| info.name_as_str().map(str::to_owned)).unwrap_or_default()
}

/// A program that was removed, kept so that it can be put back.
pub(crate) struct Removed {
    program: Program,
    fd: ProgramFd,
}

/// Removes another tool's program from an interface.
pub(crate) fn remove(interface: &Interface, program: Program) -> Result<Removed, Error> {
    // Opened before it is removed: nobody else may be holding it.
    let info = info(program.id).ok_or_else(|| taken(interface, program.id))?;
    let removed = Removed { program, fd: info.fd().tried("cannot open the program that is to be replaced")? };
    for link in loaded_links().flatten() {
        if link.program_id() != program.id || !matches!(link.link_type(), Ok(LinkType::Xdp)) {
            continue;
        }
        let link = Link::from_id(link.id())?;
        if link.interface == Some(interface.index) {
            link.detach()?;
            return Ok(removed);
        }
    }
    interface::set_program(interface.index, program.mode, None)?;
    Ok(removed)
}

impl Removed {
    /// Puts the program back, by netlink whatever it was attached by before.
    pub(crate) fn restore(&self, interface: &Interface) -> Result<(), Error> {
        interface::set_program(interface.index, self.program.mode, Some(self.fd.as_fd().as_raw_fd()))
    }
}

fn info(id: u32) -> Option<ProgramInfo> {
    loaded_programs().flatten().find(|info| info.id() == id)
}
