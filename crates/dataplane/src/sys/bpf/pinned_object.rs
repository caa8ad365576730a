//! What is pinned under a name, whoever has pinned it.

use std::{
    fs, io,
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
    path::Path,
};

use aya::maps::MapInfo;
use aya_obj::generated::{bpf_cmd, bpf_prog_info};

use crate::{
    Error,
    error::Tried as _,
    sys::bpf::{call, info_of, link::Link, open_pin},
};

/// What a pin holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PinnedObject {
    /// A map with this id.
    Map(u32),
    /// A program with this id, which uses the maps with these ids.
    Program {
        /// Its own id.
        id: u32,
        /// Those of its maps.
        maps: Vec<u32>,
    },
    /// A link with this id.
    Link {
        /// Its own id.
        id: u32,
        /// That of its program.
        program: u32,
    },
    /// Something else.
    Other,
}

impl PinnedObject {
    /// Looks at a pin.
    pub fn at(pin: &Path) -> Result<Self, Error> {
        let fd = open_pin(pin).tried("cannot open a pin")?;
        // The kernel describes an object only to those who know its kind.
        let kind = fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).tried("cannot read /proc/self/fd")?;
        match kind.to_str() {
            Some("anon_inode:bpf-map") => Ok(Self::Map(MapInfo::from_pin(pin).tried("cannot read a map")?.id())),
            Some("anon_inode:bpf-prog") => {
                let (id, maps) = id_and_maps(&fd).tried("cannot read a program")?;
                Ok(Self::Program { id, maps })
            }
            Some("anon_inode:bpf_link" | "anon_inode:bpf-link") => {
                let link = Link::new(fd)?;
                Ok(Self::Link { id: link.id, program: link.program_id })
            }
            _ => Ok(Self::Other),
        }
    }
}

/// Returns the ids of the maps of the program with this id. Needs CAP_SYS_ADMIN.
pub fn maps_of_program(id: u32) -> io::Result<Vec<u32>> {
    // SAFETY: the attributes are one id and two zeroes, which the kernel only reads.
    let fd = unsafe { call(bpf_cmd::BPF_PROG_GET_FD_BY_ID, &mut [id, 0, 0]) }?;
    // SAFETY: the kernel has just made this descriptor for us.
    let program = unsafe { OwnedFd::from_raw_fd(fd) };
    id_and_maps(&program).map(|(_, maps)| maps)
}

/// Returns the id of a program, and those of its maps. Unlike aya, this needs no CAP_SYS_ADMIN.
fn id_and_maps(program: &OwnedFd) -> io::Result<(u32, Vec<u32>)> {
    let info: bpf_prog_info = info_of(program, |_| {})?;
    let mut maps = vec![0u32; info.nr_map_ids as usize];
    let info = info_of(program, |ask: &mut bpf_prog_info| {
        (ask.nr_map_ids, ask.map_ids) = (info.nr_map_ids, maps.as_mut_ptr() as u64);
    })?;
    maps.truncate(info.nr_map_ids as usize);
    Ok((info.id, maps))
}
