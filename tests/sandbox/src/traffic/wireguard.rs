//! Sets up a WireGuard interface by generic netlink, so that no other program is needed.

use std::{
    io,
    net::SocketAddrV4,
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
};

/// A key pair for each end: the private key and its public key.
pub const WIREGUARD_KEYS: [[&str; 2]; 2] = [
    [
        "4040404040404040404040404040404040404040404040404040404040404040",
        "d7b5e81d336e578b13b8d706e82d061e3038c96bce66cdcf50d566b96ddbba10",
    ],
    [
        "5050505050505050505050505050505050505050505050505050505050505050",
        "ef38b4abd14b0a919cbe6839f6185b97d32607bee359c6c53c12cc7597867d59",
    ],
];

const SET_DEVICE: u8 = 1;
const NESTED: u16 = libc::NLA_F_NESTED as u16;
// Attributes of the kernel's include/uapi/linux/wireguard.h.
const INTERFACE: u16 = 2;
const PRIVATE_KEY: u16 = 3;
const LISTEN_PORT: u16 = 6;
const PEERS: u16 = 8;
const PUBLIC_KEY: u16 = 1;
const ENDPOINT: u16 = 4;
const ALLOWED_IPS: u16 = 9;
const FAMILY: u16 = 1;
const ADDRESS: u16 = 2;
const MASK: u16 = 3;

/// Gives the interface `name` of this thread's network namespace a key, a port, and a peer that may send from every
/// address.
///
/// # Panics
///
/// If the kernel refuses.
pub fn set_wireguard(name: &str, private: &str, port: u16, peer: &str, endpoint: SocketAddrV4) {
    // SAFETY: the arguments are plain numbers.
    let socket = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_GENERIC) };
    assert!(socket >= 0, "cannot open a netlink socket: {}", io::Error::last_os_error());
    // SAFETY: the kernel has just created this descriptor for us.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let family = attribute(libc::CTRL_ATTR_FAMILY_NAME as u16, b"wireguard\0");
    let answer = ask(&socket, libc::GENL_ID_CTRL as u16, libc::CTRL_CMD_GETFAMILY as u8, &family);
    let number = find(&answer[20..], libc::CTRL_ATTR_FAMILY_ID as u16);
    let all = |family: i32, bytes: usize| {
        let parts = [
            attribute(FAMILY, &(family as u16).to_ne_bytes()),
            attribute(ADDRESS, &vec![0; bytes]),
            attribute(MASK, &[0]),
        ];
        attribute(NESTED, &parts.concat())
    };
    let mut address = (libc::AF_INET as u16).to_ne_bytes().to_vec();
    address.extend(endpoint.port().to_be_bytes());
    address.extend(endpoint.ip().octets());
    address.resize(16, 0);
    let peer = [
        attribute(PUBLIC_KEY, &key(peer)),
        attribute(ENDPOINT, &address),
        attribute(ALLOWED_IPS | NESTED, &[all(libc::AF_INET, 4), all(libc::AF_INET6, 16)].concat()),
    ];
    let device = [
        attribute(INTERFACE, &[name.as_bytes(), &[0]].concat()),
        attribute(PRIVATE_KEY, &key(private)),
        attribute(LISTEN_PORT, &port.to_ne_bytes()),
        attribute(PEERS | NESTED, &attribute(NESTED, &peer.concat())),
    ];
    let answer = ask(&socket, u16::from_ne_bytes([number[0], number[1]]), SET_DEVICE, &device.concat());
    let error = i32::from_ne_bytes(answer[16..20].try_into().unwrap());
    assert_eq!(error, 0, "cannot set up {name}");
}

/// Sends a request and returns the answer.
fn ask(socket: &OwnedFd, family: u16, command: u8, attributes: &[u8]) -> Vec<u8> {
    let mut message = (20 + attributes.len() as u32).to_ne_bytes().to_vec();
    message.extend(family.to_ne_bytes());
    message.extend(((libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16).to_ne_bytes());
    message.extend([0; 8]);
    message.extend([command, 1, 0, 0]);
    message.extend(attributes);
    // SAFETY: the message is readable for its length.
    let sent = unsafe { libc::send(socket.as_raw_fd(), message.as_ptr().cast(), message.len(), 0) };
    assert_eq!(sent, message.len() as isize, "{}", io::Error::last_os_error());
    let mut answer = vec![0; 16_384];
    // SAFETY: the buffer is writable for its length.
    let received = unsafe { libc::recv(socket.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0) };
    answer.truncate(usize::try_from(received).expect("the kernel does not answer"));
    answer
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = (4 + value.len() as u16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Returns the value of the attribute of a kind.
fn find(mut attributes: &[u8], kind: u16) -> &[u8] {
    loop {
        let length = usize::from(u16::from_ne_bytes([attributes[0], attributes[1]]));
        if u16::from_ne_bytes([attributes[2], attributes[3]]) == kind {
            return &attributes[4..length];
        }
        attributes = &attributes[length.next_multiple_of(4)..];
    }
}

fn key(hex: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("a key is hexadecimal");
    (0..hex.len()).step_by(2).map(byte).collect()
}
