//! Requests to rtnetlink, the kernel's interface service, and to its service about sockets.

pub mod connection;
pub mod peers;
pub mod places;
pub mod route;
pub mod segments;

use std::{fmt::Display, io, thread, time::Duration};

use netlink_packet_core::{
    ErrorMessage, NLM_F_ACK, NLM_F_CAPPED, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
    NlasIterator,
};
use netlink_packet_route::{RouteNetlinkMessage, address::AddressMessage, link::LinkMessage, route::RouteMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

use crate::Error;

/// How often a list is requested while interfaces come and go in the middle of each.
pub(super) const TRIES: u32 = 10;

/// The most routes that an answer may have. They stay in memory.
const MOST_ROUTES: usize = 16_384;

/// Length of the header of a message.
const HEADER: usize = 16;

/// The attribute with the kernel's message (`NLMSGERR_ATTR_MSG` in include/uapi/linux/netlink.h).
const MESSAGE: u16 = 1;

/// Requests a list of interfaces.
///
/// # Errors
///
/// [`Error::Netlink`] if the kernel does not answer, or interfaces come and go too fast.
pub(super) fn dump(request: &RouteNetlinkMessage, tries: u32) -> Result<Vec<LinkMessage>, Error> {
    for number in 1..=tries {
        let answers = exchange(request.clone(), NLM_F_DUMP)?;
        if !answers.is_interrupted {
            return Ok(answers.links);
        }
        if number < tries {
            thread::sleep(Duration::from_millis(1 << number));
        }
    }
    Err(Error::Netlink("interfaces come and go too fast to be listed: try again later".to_owned()))
}

/// Requests a change.
///
/// # Errors
///
/// [`Error::Netlink`] with the kernel's reason.
pub(super) fn change(request: RouteNetlinkMessage) -> Result<(), Error> {
    exchange(request, NLM_F_ACK).map(drop)
}

/// The kernel's answers to a request.
#[derive(Debug, Default)]
struct Answers {
    links: Vec<LinkMessage>,
    routes: Vec<RouteMessage>,
    addresses: Vec<AddressMessage>,
    /// Whether an interface came or went in the middle of the list. Then others may be missing.
    is_interrupted: bool,
    is_complete: bool,
}

fn exchange(request: RouteNetlinkMessage, flags: u16) -> Result<Answers, Error> {
    exchange_by(request, flags, false)
}

/// Makes a request. If the kernel checks it strictly, a list of routes has no exceptions for single addresses. Those come
/// from ICMP messages, which anybody can forge.
fn exchange_by(request: RouteNetlinkMessage, flags: u16, is_strict: bool) -> Result<Answers, Error> {
    let mut socket = Socket::new(NETLINK_ROUTE).map_err(failed)?;
    // The kernel then says in words why it refuses.
    socket.set_ext_ack(true).map_err(failed)?;
    socket.set_netlink_get_strict_chk(is_strict).map_err(failed)?;
    socket.bind_auto().map_err(failed)?;
    socket.connect(&SocketAddr::new(0, 0)).map_err(failed)?;
    let mut message = NetlinkMessage::from(request);
    message.header.flags = NLM_F_REQUEST | flags;
    message.finalize();
    let mut buffer = vec![0; message.buffer_len()];
    message.serialize(&mut buffer);
    socket.send(&buffer, 0).map_err(failed)?;
    let mut answers = Answers::default();
    while !answers.is_complete {
        let (datagram, _) = socket.recv_from_full().map_err(failed)?;
        answers.read(&datagram)?;
    }
    Ok(answers)
}

impl Answers {
    /// Reads one datagram.
    fn read(&mut self, mut datagram: &[u8]) -> Result<(), Error> {
        while !datagram.is_empty() {
            let length = datagram.first_chunk().map_or(0, |length| u32::from_ne_bytes(*length) as usize).max(1);
            let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(datagram);
            datagram = datagram.get(length.next_multiple_of(4)..).unwrap_or_default();
            // Skips only the interface with an attribute that the library cannot parse.
            let Ok(answer) = answer else { continue };
            self.is_interrupted |= answer.header.flags & NLM_F_DUMP_INTR != 0;
            match answer.payload {
                NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => self.links.push(link),
                NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewRoute(route)) => {
                    if self.routes.len() >= MOST_ROUTES {
                        return Err(Error::Netlink(format!("this host has more than {MOST_ROUTES} routes")));
                    }
                    self.routes.push(route);
                }
                NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewAddress(address)) => self.addresses.push(address),
                NetlinkPayload::Error(error) if error.code.is_some() => {
                    return Err(Error::Netlink(reason(&error, answer.header.flags)));
                }
                // The list ends early, for example for lack of memory.
                NetlinkPayload::Done(done) if done.code < 0 => {
                    return Err(failed(io::Error::from_raw_os_error(-done.code)));
                }
                NetlinkPayload::Done(_) | NetlinkPayload::Error(_) => self.is_complete = true,
                _ => {}
            }
        }
        Ok(())
    }
}

/// Returns why the kernel refused: in its own words, or as the text of the error number.
fn reason(error: &ErrorMessage, flags: u16) -> String {
    let request = error.header.first_chunk().map_or(0, |length| u32::from_ne_bytes(*length) as usize);
    let echoed = if flags & NLM_F_CAPPED == 0 { request.next_multiple_of(4) } else { HEADER };
    let attributes = error.header.get(echoed..).unwrap_or_default();
    let message = NlasIterator::new(attributes).flatten().find(|attribute| attribute.kind() == MESSAGE);
    let words = message.map(|attribute| String::from_utf8_lossy(attribute.value()).trim_end_matches('\0').to_owned());
    words.unwrap_or_else(|| io::Error::from_raw_os_error(-error.raw_code()).to_string())
}

fn failed(error: impl Display) -> Error {
    Error::Netlink(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a datagram with the answers to a request: one interface without attributes, and the end.
    fn datagram(flags: u16) -> Vec<u8> {
        let link = NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(LinkMessage::default()));
        let done = NetlinkPayload::Done(netlink_packet_core::DoneMessage::default());
        let mut datagram = Vec::new();
        for payload in [link, done] {
            let mut message = NetlinkMessage::new(netlink_packet_core::NetlinkHeader::default(), payload);
            message.header.flags = flags;
            message.finalize();
            let mut bytes = vec![0; message.buffer_len()];
            message.serialize(&mut bytes);
            datagram.extend(bytes);
        }
        datagram
    }

    #[test]
    fn a_list_during_which_interfaces_came_or_went_is_known_to_be_incomplete() {
        for (flags, is_interrupted) in [(0, false), (NLM_F_DUMP_INTR, true)] {
            let mut answers = Answers::default();
            answers.read(&datagram(flags)).unwrap();
            assert_eq!((answers.links.len(), answers.is_complete, answers.is_interrupted), (1, true, is_interrupted));
        }
    }

    #[test]
    fn the_kernel_is_quoted() {
        let words = b"Too large\0";
        let length = 4 + words.len() as u16;
        // The header of the request, and one attribute.
        let mut header = vec![0; HEADER];
        header[0] = HEADER as u8;
        header.extend([length.to_ne_bytes(), MESSAGE.to_ne_bytes()].concat());
        header.extend(words);
        header.resize(header.len().next_multiple_of(4), 0);
        let mut error = ErrorMessage::default();
        (error.code, error.header) = (std::num::NonZeroI32::new(-libc::EINVAL), header.clone());
        assert_eq!([reason(&error, 0), reason(&error, NLM_F_CAPPED)], ["Too large"; 2]);
        error.header.truncate(HEADER);
        assert_eq!(reason(&error, 0), "Invalid argument (os error 22)");
        // A request of 20 bytes is repeated unless it is capped.
        error.header = [&[20, 0, 0, 0][..], &[0; 16], &header[HEADER..]].concat();
        assert_eq!(reason(&error, 0), "Too large");
    }
}
