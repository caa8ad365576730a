//! BPF links: what attaches a program to an interface, until it is detached or its last holder ends.
//!
//! aya attaches by netlink where the kernel refuses a link. Such a program stays, and nothing tracks it. So this makes
//! links itself.

use std::{
    io,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd},
    path::Path,
};

use aya_obj::generated::{bpf_attach_type::BPF_XDP, bpf_cmd, bpf_link_info, bpf_link_type::BPF_LINK_TYPE_XDP};

use crate::{
    Error,
    error::Tried as _,
    sys::bpf::{self, call, info_of, open_pin},
};

/// A BPF link.
pub struct Link {
    fd: OwnedFd,
    /// Its id.
    pub id: u32,
    /// Id of its program.
    pub program_id: u32,
    /// Index of the interface of an XDP link. None for another kind of link, or if the interface was deleted.
    pub interface: Option<u32>,
}

/// Attaches a program to the interface with this index, and returns the link. The errors are the kernel's own.
///
/// `mode` is one of the kernel's flags for XDP.
pub fn attach(program: BorrowedFd<'_>, index: u32, mode: u32) -> io::Result<OwnedFd> {
    let mut attributes = [number(program), index, BPF_XDP as u32, mode];
    // SAFETY: the attributes are numbers, which the kernel only reads.
    let fd = unsafe { call(bpf_cmd::BPF_LINK_CREATE, &mut attributes) }?;
    Ok(owned(fd))
}

impl Link {
    /// Opens a pinned link.
    pub fn from_pin(path: &Path) -> Result<Self, Error> {
        Self::new(open_pin(path).tried("cannot open a pinned link")?)
    }

    /// Opens a link by its id. Needs CAP_SYS_ADMIN.
    pub fn from_id(id: u32) -> Result<Self, Error> {
        // SAFETY: the attributes are one id and two zeroes, which the kernel only reads.
        let fd = unsafe { call(bpf_cmd::BPF_LINK_GET_FD_BY_ID, &mut [id, 0, 0]) }.tried("cannot open a link")?;
        Self::new(owned(fd))
    }

    /// Reads what the kernel knows about a link.
    pub fn new(fd: OwnedFd) -> Result<Self, Error> {
        let info: bpf_link_info = info_of(&fd, |_| {}).tried("cannot read a link")?;
        // SAFETY: this part is valid for XDP links, and any bytes are a number.
        let index = unsafe { info.__bindgen_anon_1.xdp.ifindex };
        let interface = (info.type_ == BPF_LINK_TYPE_XDP as u32 && index != 0).then_some(index);
        Ok(Self { fd, id: info.id, program_id: info.prog_id, interface })
    }

    /// Pins it.
    pub fn pin(&self, path: &Path) -> Result<(), Error> {
        bpf::pin(self.fd.as_fd(), path).tried("cannot pin the link")
    }

    /// Replaces its program. Every packet meets the program before or the one after.
    pub fn put(&self, program: BorrowedFd<'_>) -> Result<(), Error> {
        let mut attributes = [number(self.fd.as_fd()), number(program), 0, 0];
        // SAFETY: the attributes are numbers, which the kernel only reads.
        unsafe { call(bpf_cmd::BPF_LINK_UPDATE, &mut attributes) }.tried("cannot replace the program on a link")?;
        Ok(())
    }

    /// Detaches at once, also if other processes hold the link. A link whose interface was deleted is detached already.
    pub fn detach(&self) -> Result<(), Error> {
        if self.interface.is_some() {
            // SAFETY: the attribute is one descriptor, which the kernel only reads.
            unsafe { call(bpf_cmd::BPF_LINK_DETACH, &mut [number(self.fd.as_fd())]) }.tried("cannot detach a link")?;
        }
        Ok(())
    }
}

fn number(fd: BorrowedFd<'_>) -> u32 {
    fd.as_raw_fd().cast_unsigned()
}

fn owned(fd: i32) -> OwnedFd {
    // SAFETY: every caller has got this descriptor from the kernel just now, for itself.
    unsafe { OwnedFd::from_raw_fd(fd) }
}
