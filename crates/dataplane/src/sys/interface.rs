//! The network interfaces of this namespace, and the XDP programs on them.

use std::os::fd::{AsRawFd as _, BorrowedFd};

use netlink_packet_route::{
    RouteNetlinkMessage,
    link::{InfoKind, LinkAttribute, LinkFlags, LinkMessage, LinkXdp, XdpAttached},
};
use ratelimit_base::text::excerpt::escaped;

use crate::{
    Error,
    sys::{
        link_type::{FirstHeader, LinkType},
        netlink,
    },
};

/// One network interface.
#[derive(Debug, Clone)]
pub struct Interface {
    /// Its index.
    pub index: u32,
    /// Its name. Characters that would control a terminal are escaped, since whoever had the interface may choose any.
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
    /// The interface that it is a port or a member of, by index.
    pub controller: Option<u32>,
    /// The interface that it is made on, in this network namespace, by index. None for a veth, whose other end it would be.
    pub base: Option<u32>,
    /// The other end of a veth in this network namespace, by index.
    pub peer: Option<u32>,
}

impl Interface {
    /// Returns the interface that a message describes. None without a name.
    pub(super) fn of(link: &LinkMessage) -> Option<Self> {
        let (mut name, mut mtu, mut program, mut received) = (None, 0, None, Received::default());
        let (mut controller, mut base, mut is_elsewhere) = (None, None, false);
        for attribute in &link.attributes {
            match attribute {
                LinkAttribute::IfName(text) => name = Some(escaped(text)),
                LinkAttribute::Mtu(bytes) => mtu = *bytes,
                LinkAttribute::Xdp(xdp) => program = self::program(xdp),
                LinkAttribute::Controller(index) => controller = Some(*index).filter(|index| *index != 0),
                // The kernel writes 0 for none.
                LinkAttribute::Link(index) => base = Some(*index).filter(|index| *index != 0),
                LinkAttribute::LinkNetNsId(_) => is_elsewhere = true,
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
        let is_veth = link_type.kind() == Some(&InfoKind::Veth);
        let [base, peer] = [!is_veth, is_veth].map(|is_wanted| base.filter(|_| is_wanted && !is_elsewhere));
        Some(Self { index, name: name?, link_type, mtu, program, is_up, has_carrier, received, controller, base, peer })
    }

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
    pub fn flag(self) -> u32 {
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
    list_in(netlink::TRIES)
}

/// Returns the same. If interfaces come or go meanwhile, it fails at once.
///
/// # Errors
///
/// Those of [`list`].
pub fn list_once() -> Result<Vec<Interface>, Error> {
    list_in(1)
}

fn list_in(tries: u32) -> Result<Vec<Interface>, Error> {
    let request = RouteNetlinkMessage::GetLink(LinkMessage::default());
    Ok(netlink::dump(&request, tries)?.iter().filter_map(Interface::of).collect())
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

/// Returns whether one of these interfaces has this name.
#[must_use]
pub fn is_there(all: &[Interface], name: &str) -> bool {
    all.iter().any(|interface| interface.name == name)
}

/// Do not replace another program (`XDP_FLAGS_UPDATE_IF_NOEXIST` in include/uapi/linux/if_link.h).
const IF_FREE: u32 = 1;

/// Remove no other program than the expected one (`XDP_FLAGS_REPLACE` in include/uapi/linux/if_link.h).
const IF_EXPECTED: u32 = 1 << 4;

/// Attaches `program` to an interface without one by netlink, as other tools do.
///
/// # Errors
///
/// [`Error::Netlink`] with the kernel's reason.
pub fn set_program(index: u32, mode: Attached, program: BorrowedFd<'_>) -> Result<(), Error> {
    request(index, vec![LinkXdp::Fd(program.as_raw_fd()), LinkXdp::Flags(mode.flag() | IF_FREE)])
}

/// Removes a program without a link. If one is expected, it removes no other.
///
/// # Errors
///
/// [`Error::Netlink`] with the kernel's reason.
pub fn remove_program(index: u32, mode: Attached, expected: Option<BorrowedFd<'_>>) -> Result<(), Error> {
    let flags = mode.flag() | if expected.is_some() { IF_EXPECTED } else { 0 };
    let expected = expected.map(|program| LinkXdp::ExpectedFd(program.as_raw_fd().cast_unsigned()));
    request(index, [LinkXdp::Fd(-1), LinkXdp::Flags(flags)].into_iter().chain(expected).collect())
}

fn request(index: u32, xdp: Vec<LinkXdp>) -> Result<(), Error> {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message.attributes.push(LinkAttribute::Xdp(xdp));
    netlink::change(RouteNetlinkMessage::SetLink(message))
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
