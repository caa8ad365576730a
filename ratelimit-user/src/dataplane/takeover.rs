//! Another tool's program on an interface that we are told to take.

use std::os::fd::{AsFd as _, AsRawFd as _};

use aya::programs::{ProgramInfo, links::LinkType, loaded_links, loaded_programs};

use super::{
    Error,
    bpf::Link,
    error::Tried as _,
    interface::{self, Interface, Program},
};

/// The error that names the program on an interface.
pub(super) fn taken(interface: &Interface, id: u32) -> Error {
    let program = info(id).and_then(|info| info.name_as_str().map(str::to_owned)).unwrap_or_default();
    Error::Taken { name: interface.name.clone(), program, id }
}

/// A program that was removed, kept so that it can be put back.
pub(super) struct Removed {
    program: Program,
    info: Option<ProgramInfo>,
}

/// Removes another tool's program from an interface.
pub(super) fn remove(interface: &Interface, program: Program) -> Result<Removed, Error> {
    let removed = Removed { program, info: info(program.id) };
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
    pub(super) fn restore(&self, interface: &Interface) -> Result<(), Error> {
        let Some(info) = &self.info else { return Err(taken(interface, self.program.id)) };
        let fd = info.fd().tried("cannot open the program that was replaced")?;
        interface::set_program(interface.index, self.program.mode, Some(fd.as_fd().as_raw_fd()))
    }
}

fn info(id: u32) -> Option<ProgramInfo> {
    loaded_programs().flatten().find(|info| info.id() == id)
}
