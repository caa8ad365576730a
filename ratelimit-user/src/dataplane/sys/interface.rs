//! The network interfaces of this namespace, and the XDP programs on them.

use std::os::fd::RawFd;

use netlink_packet_core::{NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::{
    RouteNetlinkMessage,
    link::{LinkAttribute, LinkFlags, LinkMessage, LinkXdp, XdpAttached},
};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

use crate::dataplane::{
    Error,
    sys::link_type::{FirstHeader, LinkType},
};

/// One network interface.
#[derive(Debug, Clone)]
pub struct Interface {
    /// Its index.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its link type.
    pub link_type: LinkType,
    /// Its MTU in bytes.
    pub mtu: u32,
    /// The program that it carries.
    pub program: Option<Program>,
    /// Whether it is switched on.
    pub is_up: bool,
    /// Whether it has a carrier.
    pub has_carrier: bool,
    /// Its counters.
    pub received: Received,
}

impl Interface {
    /// Returns the header with which its packets begin.
    ///
    /// # Errors
    ///
    /// [`Error::LinkType`] if no program can read its packets.
    pub fn first_header(&self) -> Result<FirstHeader, Error> {
        self.link_type.first_header().ok_or_else(|| Error::LinkType(self.name.clone(), self.link_type.name()))
    }
}

/// Packets that an interface has counted since it was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Received {
    /// Packets that arrived in its driver. Few drivers exclude those that an XDP program takes.
    pub packets: u64,
    /// Packets for which the card had no buffer.
    pub missed: u64,
    /// Packets that the driver or the stack dropped. Some drivers include those that an XDP program drops.
    pub dropped: u64,
}

/// An XDP program on an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program {
    /// The program's id.
    pub id: u32,
    /// How it is attached.
    pub mode: Attached,
}

/// How a program is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attached {
    /// In the driver, before the kernel makes a socket buffer.
    Native,
    /// In the network stack: works everywhere, slower.
    Generic,
    /// In the network card.
    Offloaded,
}

impl Attached {
    /// Returns its name in output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Attached::Native => "native",
            Attached::Generic => "generic",
            Attached::Offloaded => "offloaded",
        }
    }

    /// Returns the kernel's flag for it (include/uapi/linux/if_link.h).
    fn flag(self) -> u32 {
        match self {
            Attached::Generic => 1 << 1,
            Attached::Native => 1 << 2,
            Attached::Offloaded => 1 << 3,
        }
    }
}

/// Returns all interfaces of this network namespace.
///
/// # Errors
///
/// [`Error::Netlink`] if the kernel does not answer.
pub fn list() -> Result<Vec<Interface>, Error> {
    let request = RouteNetlinkMessage::GetLink(LinkMessage::default());
    Ok(exchange(request, NLM_F_DUMP)?.iter().filter_map(interface).collect())
}

/// Returns the interfaces with these names, in this order, each once.
///
/// # Errors
///
/// [`Error::UnknownInterface`] for the first that does not exist.
pub fn find(names: &[String]) -> Result<Vec<Interface>, Error> {
    let all = list()?;
    let one = |name: &String| {
        all.iter().find(|interface| interface.name == *name).cloned().ok_or_else(|| Error::UnknownInterface {
            name: name.clone(),
            known: all.iter().map(|interface| interface.name.as_str()).collect::<Vec<_>>().join(", "),
        })
    };
    let first = |(place, name): &(usize, &String)| !names[..*place].contains(name);
    names.iter().enumerate().filter(first).map(|(_, name)| one(name)).collect()
}

/// Attaches `program` to an interface by netlink, as other tools do. None removes the present program.
///
/// # Errors
///
/// [`Error::Netlink`] with the kernel's reason.
pub(crate) fn set_program(index: u32, mode: Attached, program: Option<RawFd>) -> Result<(), Error> {
    let mut message = LinkMessage::default();
    message.header.index = index;
    let fd = LinkXdp::Fd(program.unwrap_or(-1));
    message.attributes.push(LinkAttribute::Xdp(vec![fd, LinkXdp::Flags(mode.flag())]));
    exchange(RouteNetlinkMessage::SetLink(message), NLM_F_ACK).map(|_| ())
}

/// Sends a request and collects the kernel's answers.
fn exchange(request: RouteNetlinkMessage, flags: u16) -> Result<Vec<LinkMessage>, Error> {
    let failed = |error: &dyn std::fmt::Display| Error::Netlink(error.to_string());
    let mut socket = Socket::new(NETLINK_ROUTE).map_err(|error| failed(&error))?;
    socket.bind_auto().map_err(|error| failed(&error))?;
    socket.connect(&SocketAddr::new(0, 0)).map_err(|error| failed(&error))?;
    let mut message = NetlinkMessage::from(request);
    message.header.flags = NLM_F_REQUEST | flags;
    message.finalize();
    let mut buffer = vec![0; message.buffer_len()];
    message.serialize(&mut buffer);
    socket.send(&buffer, 0).map_err(|error| failed(&error))?;

    let mut links = Vec::new();
    loop {
        let (datagram, _) = socket.recv_from_full().map_err(|error| failed(&error))?;
        let mut rest = datagram.as_slice();
        while !rest.is_empty() {
            let length = rest.first_chunk().map_or(0, |length| u32::from_ne_bytes(*length) as usize).max(1);
            let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest);
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
            // Skips only the interface with an attribute that the library cannot parse.
            let Ok(answer) = answer else { continue };
            match answer.payload {
                NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => links.push(link),
                NetlinkPayload::Error(error) if error.code.is_some() => return Err(failed(&error)),
                NetlinkPayload::Done(_) | NetlinkPayload::Error(_) => return Ok(links),
                _ => {}
            }
        }
    }
}

fn interface(link: &LinkMessage) -> Option<Interface> {
    let (mut name, mut mtu, mut program, mut received) = (None, 0, None, Received::default());
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::IfName(text) => name = Some(text.clone()),
            LinkAttribute::Mtu(bytes) => mtu = *bytes,
            LinkAttribute::Xdp(xdp) => program = self::program(xdp),
            LinkAttribute::Stats64(counted) => {
                received = Received {
                    packets: counted.rx_packets,
                    missed: counted.rx_missed_errors + counted.rx_fifo_errors,
                    dropped: counted.rx_dropped,
                };
            }
            _ => {}
        }
    }
    let flags = link.header.flags;
    let (is_up, has_carrier) = (flags.contains(LinkFlags::Up), flags.contains(LinkFlags::LowerUp));
    let (index, link_type) = (link.header.index, LinkType::of(link));
    Some(Interface { index, name: name?, link_type, mtu, program, is_up, has_carrier, received })
}

fn program(xdp: &[LinkXdp]) -> Option<Program> {
    let find = |requested: fn(&LinkXdp) -> Option<u32>| xdp.iter().find_map(requested);
    let attached = xdp.iter().find_map(|attribute| match attribute {
        LinkXdp::Attached(attached) => Some(*attached),
        _ => None,
    })?;
    let id = |attribute: &LinkXdp| if let LinkXdp::ProgId(id) = attribute { Some(*id) } else { None };
    let native = |attribute: &LinkXdp| if let LinkXdp::DrvProgId(id) = attribute { Some(*id) } else { None };
    let (mode, id) = match attached {
        XdpAttached::Driver => (Attached::Native, find(id)),
        XdpAttached::SocketBuffer => (Attached::Generic, find(id)),
        XdpAttached::Hardware => (Attached::Offloaded, find(id)),
        XdpAttached::Multiple => (Attached::Native, find(native)),
        _ => return None,
    };
    Some(Program { id: id?, mode })
}
