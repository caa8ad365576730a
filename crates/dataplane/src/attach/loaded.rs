//! Programs and links that the kernel has loaded, whoever owns them.

use aya::programs::{ProgramInfo, links::LinkType, loaded_links, loaded_programs};

use crate::{Error, sys::bpf::link::Link};

/// Returns the name of the program with this id. Empty if there is none.
pub(super) fn program_name(id: u32) -> String {
    info(id).and_then(|info| info.name_as_str().map(str::to_owned)).unwrap_or_default()
}

/// Returns the links between a program and interfaces with this index. Needs CAP_SYS_ADMIN if there is one.
pub(super) fn links_of(program: u32, index: u32) -> Result<Vec<Link>, Error> {
    // A link that disappears meanwhile is an error of the list, and not ours.
    let links = loaded_links().flatten();
    let ours = links.filter(|link| link.program_id() == program && matches!(link.link_type(), Ok(LinkType::Xdp)));
    let links: Vec<Link> = ours.map(|link| Link::from_id(link.id())).collect::<Result<_, _>>()?;
    Ok(links.into_iter().filter(|link| link.interface == Some(index)).collect())
}

/// Returns what the kernel tells about the program with this id. None if there is none.
pub(super) fn info(id: u32) -> Option<ProgramInfo> {
    loaded_programs().flatten().find(|info| info.id() == id)
}
