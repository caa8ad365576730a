//! The few BPF system calls that aya does not offer, on links.

use std::{
    ffi::CString,
    io,
    os::{
        fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
};

use super::{Error, error::Tried as _};

// Numbers from the kernel's include/uapi/linux/bpf.h.
const BPF_OBJ_GET: libc::c_long = 7;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_long = 15;
const BPF_LINK_GET_FD_BY_ID: libc::c_long = 30;
const BPF_LINK_DETACH: libc::c_long = 34;
const BPF_LINK_TYPE_XDP: u32 = 6;

/// Start of `struct bpf_link_info` for an XDP link.
#[repr(C, align(8))]
#[derive(Default)]
struct LinkInfo {
    kind: u32,
    id: u32,
    program_id: u32,
    reserved: u32,
    interface: u32,
    /// Newer kernels may report more; it is not read.
    rest: [u32; 11],
}

/// `union bpf_attr` for `BPF_OBJ_GET_INFO_BY_FD`.
#[repr(C)]
struct InfoByFd {
    fd: u32,
    length: u32,
    info: u64,
}

/// A BPF link.
pub(super) struct Link {
    fd: OwnedFd,
    /// The program on it.
    pub(super) program_id: u32,
    /// Index of the interface of an XDP link; none for another kind of link, and where the interface was deleted.
    pub(super) interface: Option<u32>,
}

impl Link {
    /// Opens a pinned link.
    pub(super) fn from_pin(path: &Path) -> Result<Self, Error> {
        let name = CString::new(path.as_os_str().as_bytes()).tried("cannot open a pinned link")?;
        let attributes = [name.as_ptr() as u64, 0];
        // SAFETY: the kernel reads the name, which outlives the call.
        let fd = unsafe { call(BPF_OBJ_GET, &attributes) }.tried("cannot open a pinned link")?;
        Self::new(fd)
    }

    /// Opens a link by its id. Needs CAP_SYS_ADMIN.
    pub(super) fn from_id(id: u32) -> Result<Self, Error> {
        // SAFETY: the attributes are one id and two zeroes, which the kernel only reads.
        let fd = unsafe { call(BPF_LINK_GET_FD_BY_ID, &[id, 0, 0]) }.tried("cannot open a link")?;
        Self::new(fd)
    }

    fn new(fd: i32) -> Result<Self, Error> {
        // SAFETY: the kernel has just made this descriptor for us.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let mut info = LinkInfo::default();
        let attributes =
            InfoByFd { fd: fd_number(&fd), length: size_of::<LinkInfo>() as u32, info: &raw mut info as u64 };
        // SAFETY: the kernel writes at most `length` bytes to `info`, which outlives the call.
        unsafe { call(BPF_OBJ_GET_INFO_BY_FD, &attributes) }.tried("cannot read a link")?;
        let interface = (info.kind == BPF_LINK_TYPE_XDP && info.interface != 0).then_some(info.interface);
        Ok(Self { fd, program_id: info.program_id, interface })
    }

    /// Detaches at once, whoever still holds the link. One whose interface was deleted is detached already.
    pub(super) fn detach(&self) -> Result<(), Error> {
        if self.interface.is_some() {
            // SAFETY: the attribute is one descriptor, which the kernel only reads.
            unsafe { call(BPF_LINK_DETACH, &[fd_number(&self.fd)]) }.tried("cannot detach a link")?;
        }
        Ok(())
    }
}

fn fd_number(fd: &OwnedFd) -> u32 {
    fd.as_raw_fd().cast_unsigned()
}

/// # Safety
///
/// `attributes` must be what the command expects, with valid pointers in it.
unsafe fn call<T>(command: libc::c_long, attributes: &T) -> io::Result<i32> {
    // SAFETY: the pointer and the size belong together; the rest is the caller's promise.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, &raw const *attributes, size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}
