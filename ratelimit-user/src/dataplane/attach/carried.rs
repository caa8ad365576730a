//! The programs that the links carry: one for Ethernet, and one for packets that begin with the IP header.

use std::path::Path;

use crate::dataplane::{
    Error,
    attach::{attachment::Attachments, link},
    program::programs::Programs,
    sys::{
        bpf::link::Link,
        interface::{self, Interface},
        link_type::FirstHeader,
    },
};

/// Puts on every link the program for its interface. After a failure, the links before the failed one carry it.
///
/// `raw` are the programs that links without Ethernet headers carry, before and after.
pub(crate) fn put(attachments: &Attachments, programs: &Programs, raw: &[Option<u32>]) -> Result<(), Error> {
    let interfaces = interface::list()?;
    attachments
        .pins()?
        .iter()
        .try_for_each(|pin| link::put(programs.of_any_version(first_header(pin, &interfaces, raw)), pin))
}

/// Returns whether a link carries one of these programs.
pub(crate) fn carry(attachments: &Attachments, programs: &Programs) -> Result<bool, Error> {
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

/// Returns whether an interface without Ethernet headers is attached. `raw` is the program for those.
pub(crate) fn has_raw_ip(attachments: &Attachments, raw: Option<u32>) -> Result<bool, Error> {
    let interfaces = interface::list()?;
    Ok(attachments.pins()?.iter().any(|pin| first_header(pin, &interfaces, &[raw]) == FirstHeader::Ip))
}

/// Returns the first header of packets on a link. If its interface is in another network namespace, the present program
/// tells. A link without an interface gets no program, and an interface of an unknown type keeps the one for Ethernet.
fn first_header(pin: &Path, interfaces: &[Interface], raw: &[Option<u32>]) -> FirstHeader {
    let Ok(Link { program_id, interface: Some(index), .. }) = Link::from_pin(pin) else { return FirstHeader::Ethernet };
    let is_seen = |interface: &&Interface| {
        interface.index == index && interface.program.is_some_and(|program| program.id == program_id)
    };
    match interfaces.iter().find(is_seen) {
        Some(interface) => interface.link_type.first_header().unwrap_or(FirstHeader::Ethernet),
        None if raw.contains(&Some(program_id)) => FirstHeader::Ip,
        None => FirstHeader::Ethernet,
    }
}
