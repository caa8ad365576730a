//! The XDP program of another tool on an interface: its name, its removal and its return.

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

/// Returns the error that names the program on an interface.
pub(crate) fn taken(interface: &Interface, id: u32) -> Error {
    Error::Taken { name: interface.name.clone(), program: program_name(id), id }
}

/// Returns the name of the program with this id. Empty if there is none.
#[must_use]
pub fn program_name(id: u32) -> String {
    info(id).and_then(|info| info.name_as_str().map(str::to_owned)).unwrap_or_default()
}

/// A removed program. It is kept so that it can be restored.
pub(crate) struct Removed {
    program: Program,
    fd: ProgramFd,
}

/// Removes another tool's program from an interface.
pub(crate) fn remove(interface: &Interface, program: Program) -> Result<Removed, Error> {
    // Opened before it is removed, because the kernel frees a program without holders.
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
    /// Attaches the program again. It uses netlink, also if the program had a link before.
    pub(crate) fn restore(&self, interface: &Interface) -> Result<(), Error> {
        interface::set_program(interface.index, self.program.mode, Some(self.fd.as_fd().as_raw_fd()))
    }
}

fn info(id: u32) -> Option<ProgramInfo> {
    loaded_programs().flatten().find(|info| info.id() == id)
}
