//! The header of a proxy, and programs of the same host that send one.

use std::{
    fs,
    io::Write as _,
    net::{IpAddr, SocketAddr, TcpStream, UdpSocket},
    os::fd::OwnedFd,
};

use ratelimit_tests::{Sandbox, VICTIM_IPV4};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

use super::{Server, answer};

const TABLES: &str = "[[user]]\nname = \"alice\"\nscope = [\"rules:read\"]\n\
                      [console]\nlisten = \"127.0.0.1:8090\"\nuser-header = \"x-remote-user\"\n";
/// So few that a program can take them all at once.
const PORTS: &str = "40000 40009";

/// Returns the status of a page for a program of the server's host that says from this address who has signed in.
fn status(sandbox: &Sandbox, from: IpAddr) -> u16 {
    sandbox.victim(|| {
        let stream: OwnedFd = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&stream, &SocketAddr::from((from, 0))).unwrap();
        connect(&stream, &SocketAddr::from(([127, 0, 0, 1], 8090))).unwrap();
        let mut stream = TcpStream::from(stream);
        let head = "GET /console HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx-remote-user: alice\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        answer(stream).status
    })
}

#[test]
fn a_program_of_the_host_is_no_proxy_whatever_ports_it_takes_and_whatever_addresses_programs_may_bind() {
    let sandbox = Sandbox::new();
    let rules = format!("{}{TABLES}proxies = [\"{VICTIM_IPV4}\"]\n", super::RULES);
    let server = Server::start(&sandbox, &rules);
    let set = |name: &str, value: &str| {
        sandbox.victim(|| fs::write(format!("/proc/sys/net/ipv4/{name}"), value).unwrap());
    };
    let from = VICTIM_IPV4.into();
    // The sign-in, for someone whom nobody has signed in.
    assert_eq!(status(&sandbox, from), 303);
    set("ip_nonlocal_bind", "1");
    assert_eq!(status(&sandbox, from), 303);
    set("ip_nonlocal_bind", "0");
    set("ip_local_port_range", PORTS);
    let ports: Vec<_> =
        sandbox.victim(|| std::iter::from_fn(|| UdpSocket::bind((VICTIM_IPV4, 0)).ok()).take(20).collect());
    assert_eq!(ports.len(), 10);
    assert_eq!(status(&sandbox, from), 303);
    server.end();
}
