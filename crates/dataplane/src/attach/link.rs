//! One link between the program and an interface: made, found by its pin, replaced and removed. What the links together
//! are attached to belongs in `attachment`.

use std::{
    os::fd::{AsFd as _, BorrowedFd},
    path::{Path, PathBuf},
};

use aya::programs::{ProgramFd, Xdp};

use crate::{
    Error,
    attach::program_above,
    error::Tried as _,
    pins::{layout, link_name::LinkName, ownership},
    sys::{
        bpf::{
            self,
            link::{self as bpf_link, Link},
        },
        drivers::{self, Refusal},
        interface::{self, Attached, Interface},
    },
};

/// The usual MTU. Every driver with native XDP can receive such frames.
const MTU_WITHOUT_FRAGS: u32 = 1_500;

/// What the kernel says where native XDP is missing: of a driver (net/core/dev.c), and of a bond by its mode or its
/// members (drivers/net/bonding/bond_main.c).
const NO_NATIVE_XDP: [&str; 3] = [
    "Underlying driver does not support XDP in native mode",
    "No native XDP support for the current bonding mode",
    "Slave device does not support XDP",
];

/// Returns the pins in a folder of links, in order.
pub fn pins(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    ownership::check_folder(folder)?;
    let mut pins = layout::entries(folder)?;
    pins.iter().try_for_each(|pin| ownership::check_file(pin))?;
    pins.sort();
    Ok(pins)
}

/// Returns the pin of the link with this id, under its present name.
pub fn pin_of(folder: &Path, link: u32) -> Result<Option<PathBuf>, Error> {
    Ok(pins(folder)?.into_iter().find(|pin| LinkName::read(pin).link == link))
}

/// Detaches a pinned link and removes its pin.
///
/// The pin goes first. If this process is killed then, the kernel detaches the link, because nobody holds it. That may
/// take some time, so this does not wait for it. If another process removes the same link, this succeeds.
pub fn remove(pin: &Path) -> Result<(), Error> {
    let take = || {
        let link = Link::from_pin(pin)?;
        layout::remove_file(pin)?;
        Ok(link)
    };
    match take() {
        // Without its pin, the link would go when this process ends, although the command has failed.
        Ok(link) => link.detach().or_else(|error| link.pin(pin).and(Err(error))),
        Err(_) if !pin.exists() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Puts a program on a pinned link. A link that has gone, or has lost its interface, needs none.
pub fn put(program: &Xdp, pin: &Path) -> Result<(), Error> {
    // An attach is undone without the lock, so links can disappear at any time.
    let is_gone = || !pin.exists() || Link::from_pin(pin).is_ok_and(|link| link.interface.is_none());
    put_on(program, pin).or_else(|error| if is_gone() { Ok(()) } else { Err(error) })
}

fn put_on(program: &Xdp, pin: &Path) -> Result<(), Error> {
    let link = Link::from_pin(pin)?;
    // The kernel refuses another program on a link whose interface was deleted.
    if link.interface.is_none() {
        return Ok(());
    }
    link.put(fd(program)?)
}

/// Attaches the program to an interface, and returns the link. Unless it is pinned, dropping it detaches.
pub fn attach(program: &Xdp, interface: &Interface, mode: Attached) -> Result<Link, Error> {
    let name = || interface.name.clone();
    let program = fd(program)?;
    let attached = bpf_link::attach(program, interface.index, mode.flag()).map_err(|error| {
        let code = error.raw_os_error().unwrap_or(0);
        if [libc::EBUSY, libc::EEXIST].contains(&code) && has_program(interface.index) {
            return Error::TakenMeanwhile(name());
        }
        if code == libc::EEXIST
            && let Some(refused) = program_above::refused(interface)
        {
            return refused;
        }
        // Only a refusal that lasts is repeated to learn the reason.
        let lasting = [
            libc::EBUSY,
            libc::EINVAL,
            libc::EOPNOTSUPP,
            libc::ERANGE,
            libc::ENOSPC,
            libc::E2BIG,
            libc::ENOMEM,
            libc::ENOTCONN,
        ];
        let words = if lasting.contains(&code) { reason(program, interface, mode) } else { None };
        let is_usual = words.as_ref().is_none_or(|words| NO_NATIVE_XDP.contains(&words.as_str()));
        if code == libc::EOPNOTSUPP && mode == Attached::Native && is_usual {
            return Error::no_native_xdp(
                interface.name.clone(),
                drivers::refusal(interface).map(|refusal| (refusal.why, refusal.fix)),
            );
        }
        let cause = words.unwrap_or_else(|| error.to_string());
        Error::Attach { name: name(), cause, advice: advice(interface, mode) }
    });
    Link::new(attached?)
}

/// Pins a program.
pub fn pin_program(program: &ProgramFd, pin: &Path) -> Result<(), Error> {
    bpf::pin(program.as_fd(), pin).tried("cannot pin the program that is to be replaced")
}

/// Returns in the kernel's words why it refuses to attach. A link gets only a number, netlink gets words.
fn reason(program: BorrowedFd<'_>, interface: &Interface, mode: Attached) -> Option<String> {
    match interface::set_program(interface.index, mode, program) {
        // The cause has gone. Nothing tracks this program, so it must not stay.
        Ok(()) => interface::remove_program(interface.index, mode, Some(program)).err().map(|error| error.to_string()),
        Err(Error::Netlink(words)) => Some(words),
        Err(_) => None,
    }
}

/// Returns whether an interface has a program now. If that is unknown, it has one.
fn has_program(index: u32) -> bool {
    let all = interface::list().unwrap_or_default();
    all.iter().find(|interface| interface.index == index).is_none_or(|interface| interface.program.is_some())
}

fn advice(interface: &Interface, mode: Attached) -> String {
    let Interface { name, mtu, .. } = interface;
    if mode == Attached::Native
        && let Some(Refusal { why, fix }) = drivers::refusal(interface)
    {
        let fix = fix.map_or_else(String::new, |fix| format!(": run `{fix}` first"));
        return format!(": {why}{fix}, or attach with --mode generic");
    }
    match mode {
        Attached::Native if *mtu > MTU_WITHOUT_FRAGS => format!(
            ": attach with --mode generic, or, if the reason is the MTU of {mtu}, lower it with `ip link set {name} mtu 1500`"
        ),
        Attached::Native => ": attach with --mode generic".to_owned(),
        _ => String::new(),
    }
}

fn fd(program: &Xdp) -> Result<BorrowedFd<'_>, Error> {
    Ok(program.fd().tried("cannot use the program")?.as_fd())
}
