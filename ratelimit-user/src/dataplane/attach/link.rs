//! One link between the program and an interface: made, found by its pin, replaced and removed. What the links together
//! are attached to belongs in `attachment`.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use aya::programs::{
    ProgramError, Xdp, XdpMode,
    links::{FdLink, PinnedLink},
    xdp::{XdpError, XdpLink},
};

use crate::dataplane::{
    Error,
    error::{Tried as _, at},
    pins::{layout, link_name::LinkName, ownership},
    sys::{
        bpf::Link,
        host::{self, FRAGS_SINCE},
        interface::Interface,
    },
};

/// The usual MTU. Every driver receives such frames in one buffer.
const MTU_WITHOUT_FRAGS: u32 = 1_500;

/// Returns the pins in a folder of links, in order.
pub(crate) fn pins(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    ownership::check_folder(folder)?;
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(at(folder))?,
    };
    let mut pins = Vec::new();
    for entry in entries {
        let pin = entry.map_err(at(folder))?.path();
        ownership::check_file(&pin)?;
        pins.push(pin);
    }
    pins.sort();
    Ok(pins)
}

/// Returns the pin of the link with this id, under its present name.
pub(crate) fn pin_of(folder: &Path, link: u32) -> Result<Option<PathBuf>, Error> {
    Ok(pins(folder)?.into_iter().find(|pin| LinkName::read(pin).link == link))
}

/// Detaches a pinned link and removes its pin.
///
/// The kernel may free a link some time after its last holder closes it, so this detaches first. If another process
/// removes the same link, this succeeds.
pub(crate) fn remove(pin: &Path) -> Result<(), Error> {
    let remove = || {
        Link::from_pin(pin)?.detach()?;
        layout::remove_file(pin)
    };
    remove().or_else(|error| if pin.exists() { Err(error) } else { Ok(()) })
}

/// Puts a program on a pinned link. A link that has gone, or has lost its interface, needs none.
pub(crate) fn put(program: &mut Xdp, pin: &Path) -> Result<(), Error> {
    // An attach is undone without the lock, so links can disappear at any time.
    let is_gone = || !pin.exists() || Link::from_pin(pin).is_ok_and(|link| link.interface.is_none());
    put_on(program, pin).or_else(|error| if is_gone() { Ok(()) } else { Err(error) })
}

fn put_on(program: &mut Xdp, pin: &Path) -> Result<(), Error> {
    // The kernel refuses another program on a link whose interface was deleted.
    if Link::from_pin(pin)?.interface.is_none() {
        return Ok(());
    }
    let link = FdLink::from(PinnedLink::from_pin(pin).tried("cannot open a pinned link")?);
    let link = XdpLink::try_from(link).tried("cannot replace the program on a link")?;
    let id = program.attach_to_link(link).tried("cannot replace the program on a link")?;
    // The pin keeps the link. Otherwise aya would detach it when it drops the program.
    drop(program.take_link(id).tried("cannot replace the program on a link")?);
    Ok(())
}

/// Attaches the program to an interface. Dropping the link detaches it.
pub(crate) fn attach(program: &mut Xdp, interface: &Interface, mode: XdpMode) -> Result<FdLink, Error> {
    let name = || interface.name.clone();
    let refused = |error: ProgramError| match &error {
        ProgramError::SyscallError(call) => match call.io_error.raw_os_error() {
            Some(libc::EOPNOTSUPP) => Error::NoNativeXdp { name: name() },
            Some(libc::EBUSY | libc::EEXIST) => Error::TakenMeanwhile { name: name() },
            Some(code) => not_attached(interface, io::Error::from_raw_os_error(code)),
            None => Error::bpf("cannot attach")(&error),
        },
        // After EINVAL, aya tries netlink, which returns the kernel's message.
        ProgramError::XdpError(XdpError::NetlinkError(source)) => {
            not_attached(interface, io::Error::other(source.to_string()))
        }
        _ => Error::bpf("cannot attach")(&error),
    };
    let id = program.attach_to_if_index(interface.index, mode).map_err(refused)?;
    let link = program.take_link(id).tried("cannot attach")?;
    FdLink::try_from(link).tried("this kernel attached without a link, which cannot be pinned")
}

/// Returns the likely reason why a driver with native XDP refuses.
fn not_attached(interface: &Interface, cause: io::Error) -> Error {
    let Interface { mtu, .. } = *interface;
    let name = interface.name.clone();
    if mtu <= MTU_WITHOUT_FRAGS {
        return Error::Attach { name, cause };
    }
    let place = if host::kernel_is_at_least(FRAGS_SINCE) { "in its driver" } else { "before Linux 5.18" };
    Error::Mtu { name, mtu, place, cause }
}
