//! Reads a driver's XDP features from the generic netlink family `netdev` (kernel 6.3).

use netlink_packet_core::{NLM_F_ACK, NLM_F_REQUEST, NlasIterator};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_GENERIC};

const CONTROL: u16 = libc::GENL_ID_CTRL as u16;
const GET_FAMILY: u8 = libc::CTRL_CMD_GETFAMILY as u8;
const FAMILY_ID: u16 = libc::CTRL_ATTR_FAMILY_ID as u16;
const FAMILY_NAME: u16 = libc::CTRL_ATTR_FAMILY_NAME as u16;
// Numbers from the kernel's include/uapi/linux/netdev.h, which libc lacks.
const GET_DEVICE: u8 = 1;
const INTERFACE: u16 = 1;
const XDP_FEATURES: u16 = 3;
const BASIC: u64 = 1;
const SEVERAL_BUFFERS: u64 = 1 << 5;
const ERROR: u16 = libc::NLMSG_ERROR as u16;
/// Bytes of both headers of a message.
const HEADERS: usize = 20;

/// XDP features of a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XdpFeatures {
    /// It runs programs in native mode.
    pub native: bool,
    /// It passes frames of several buffers to a program.
    pub several_buffers: bool,
}

/// Returns the XDP features of the interface with this index. None before kernel 6.3.
#[must_use]
pub fn xdp_features(index: u32) -> Option<XdpFeatures> {
    let mut socket = Socket::new(NETLINK_GENERIC).ok()?;
    socket.bind_auto().ok()?;
    socket.connect(&SocketAddr::new(0, 0)).ok()?;
    let family = ask(&socket, CONTROL, GET_FAMILY, FAMILY_NAME, b"netdev\0")?;
    let family = u16::from_ne_bytes(*attribute(&family, FAMILY_ID)?.first_chunk()?);
    let device = ask(&socket, family, GET_DEVICE, INTERFACE, &index.to_ne_bytes())?;
    let features = u64::from_ne_bytes(*attribute(&device, XDP_FEATURES)?.first_chunk()?);
    Some(XdpFeatures { native: features & BASIC != 0, several_buffers: features & SEVERAL_BUFFERS != 0 })
}

/// Sends a command with one attribute, and returns the attributes of the answer.
fn ask(socket: &Socket, family: u16, command: u8, kind: u16, value: &[u8]) -> Option<Vec<u8>> {
    let attribute = 4 + value.len();
    let length = HEADERS + attribute.next_multiple_of(4);
    let mut message = Vec::with_capacity(length);
    message.extend(u32::try_from(length).ok()?.to_ne_bytes());
    message.extend(family.to_ne_bytes());
    // With an acknowledgement there is an answer in any case.
    message.extend((NLM_F_REQUEST | NLM_F_ACK).to_ne_bytes());
    message.extend([0; 8]);
    message.extend([command, 1, 0, 0]);
    message.extend(u16::try_from(attribute).ok()?.to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(value);
    message.resize(length, 0);
    socket.send(&message, 0).ok()?;
    let mut answer = None;
    loop {
        let (datagram, _) = socket.recv_from_full().ok()?;
        let kind = u16::from_ne_bytes(*datagram.get(4..)?.first_chunk()?);
        if kind == ERROR {
            return answer;
        }
        answer = Some(datagram.get(HEADERS..)?.to_vec());
    }
}

/// Returns the value of the first attribute of a kind.
fn attribute(attributes: &[u8], kind: u16) -> Option<&[u8]> {
    let found = NlasIterator::new(attributes).map_while(Result::ok).find(|found| found.kind() == kind)?;
    let length = usize::from(found.length());
    found.into_inner().get(4..length)
}
