//! The programs that the links carry. The type of an interface, and the name of its pin, tell which one.

use std::path::{Path, PathBuf};

use crate::{
    Error,
    attach::{attachment::Attachments, link},
    pins::link_name::LinkName,
    program::programs::{Kind, Programs},
    sys::{
        bpf::link::Link,
        interface::{self, Interface},
        link_type::FirstHeader,
    },
};

/// Puts on every link the program for its interface. After a failure, the links before the failed one carry it.
///
/// `raw` are the programs that links without Ethernet headers carry, before and after.
pub fn put(attachments: &Attachments, programs: &Programs, raw: &[u32]) -> Result<(), Error> {
    let interfaces = interface::list()?;
    attachments.pins()?.iter().try_for_each(|pin| link::put(programs.of_any_version(kind(pin, &interfaces, raw)), pin))
}

/// Puts on this link the program for its interface.
pub fn put_on(pin: &Path, programs: &Programs) -> Result<(), Error> {
    link::put(programs.of(kind(pin, &interface::list()?, &programs.raw_ids()?))?, pin)
}

/// Returns the pins of links whose program does not fit their names: one is for shadow, and the other is not.
pub fn other_shadow(attachments: &Attachments, programs: &Programs) -> Result<Vec<PathBuf>, Error> {
    let (shadow, mut found) = (programs.shadow_ids()?, Vec::new());
    for pin in attachments.pins()? {
        let is_shadow = Link::from_pin(&pin).map(|link| shadow.contains(&link.program_id));
        // An unfinished attach is undone without the lock.
        if is_shadow.is_ok_and(|is_shadow| is_shadow != LinkName::read(&pin).is_shadow) {
            found.push(pin);
        }
    }
    Ok(found)
}

/// Returns whether a link carries one of these programs.
pub fn carry(attachments: &Attachments, programs: &Programs) -> Result<bool, Error> {
    let ids = programs.ids()?;
    for pin in attachments.pins()? {
        match Link::from_pin(&pin) {
            Ok(link) if ids.contains(&link.program_id) => return Ok(true),
            Ok(_) => {}
            // An unfinished attach is undone without the lock.
            Err(_) if !pin.exists() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

/// Returns whether an interface without Ethernet headers is attached. `raw` are the programs for those.
pub fn has_raw_ip(attachments: &Attachments, raw: &[u32]) -> Result<bool, Error> {
    let interfaces = interface::list()?;
    Ok(attachments.pins()?.iter().any(|pin| kind(pin, &interfaces, raw).first == FirstHeader::Ip))
}

/// Returns whether an interface is in shadow, although others may not be.
pub fn has_shadow(attachments: &Attachments) -> Result<bool, Error> {
    Ok(attachments.pins()?.iter().any(|pin| LinkName::read(pin).is_shadow))
}

/// Returns the kind of program for a link.
fn kind(pin: &Path, interfaces: &[Interface], raw: &[u32]) -> Kind {
    Kind { first: first_header(pin, interfaces, raw), is_shadow: LinkName::read(pin).is_shadow }
}

/// Returns the first header of packets on a link. If its interface is in another network namespace, the present program
/// tells. A link without an interface gets no program, and an interface of an unknown type keeps the one for Ethernet.
fn first_header(pin: &Path, interfaces: &[Interface], raw: &[u32]) -> FirstHeader {
    let Ok(Link { program_id, interface: Some(index), .. }) = Link::from_pin(pin) else { return FirstHeader::Ethernet };
    let is_seen = |interface: &&Interface| {
        interface.index == index && interface.program.is_some_and(|program| program.id == program_id)
    };
    match interfaces.iter().find(is_seen) {
        Some(interface) => interface.link_type.first_header().unwrap_or(FirstHeader::Ethernet),
        None if raw.contains(&program_id) => FirstHeader::Ip,
        None => FirstHeader::Ethernet,
    }
}
