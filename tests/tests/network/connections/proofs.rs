//! New visitors and established connections beside a flood of forged SYNs, with the sockets of the kernel.

use std::{
    io::{Read as _, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use ratelimit_tests::{Frame, PATIENCE, Ratelimit, Sandbox, Sink, VICTIM_IPV4, VICTIM_IPV6, VICTIM_LINK, scaled};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket, sockopt};

use super::forge;
use crate::receiver::alone;

/// A page that visitors get.
const PAGE: usize = 100_000;
const VISITORS: u8 = 10;
/// Forged SYNs per second that leave the visitors some time of the CPUs.
const FLOOD: u32 = 100_000;

/// Serves the page to every visitor of both families that asks for it by a byte. Returns the port.
fn serve(sandbox: &Sandbox) -> u16 {
    let listener = sandbox.victim(|| TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0))).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            // A visitor may have given up.
            thread::spawn(move || {
                (&connection).read_exact(&mut [0])?;
                (&connection).write_all(&[7; PAGE])
            });
        }
    });
    port
}

/// Connects from an address of the peer.
fn connect_from(sandbox: &Sandbox, from: IpAddr, to: SocketAddr) -> TcpStream {
    sandbox.peer(|| {
        let family = if from.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = socket(family, SocketType::STREAM, None).unwrap();
        bind(&socket, &SocketAddr::new(from, 0)).unwrap();
        connect(&socket, &to).unwrap();
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    })
}

/// Gets the page.
fn get(mut connection: TcpStream) {
    let mut page = Vec::new();
    connection.write_all(&[0]).unwrap();
    connection.read_to_end(&mut page).unwrap();
    assert_eq!(page, [7; PAGE], "{:?}", connection.local_addr());
}

/// Returns a new visitor's address, which the peer gets.
fn visitor(sandbox: &Sandbox, is_ipv4: bool, number: u8) -> IpAddr {
    let address = match is_ipv4 {
        true => IpAddr::from(Ipv4Addr::new(10, 9, 5, number)),
        false => Ipv6Addr::new(0xfd00, 9, 0, number.into(), 0, 0, 0, 5).into(),
    };
    sandbox.add_peer_address(address);
    address
}

#[test]
fn new_visitors_and_established_connections_get_through_a_flood_of_forged_syns() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let _peer = Sink::at_the_peer(&sandbox);
    let port = serve(&sandbox);
    let servers = [IpAddr::from(VICTIM_IPV4), VICTIM_IPV6.into()].map(|address| SocketAddr::new(address, port));
    // The visitor of a connection that exists before the limit.
    let connected = servers.map(|to| connect_from(&sandbox, visitor(&sandbox, to.is_ipv4(), 100), to));

    let attach = format!("attach {VICTIM_LINK} --packets 100k/s --unknown 1/s --prove tcp");
    let refused = ratelimit.run(&attach);
    assert!(refused.status == 2 && refused.stderr.contains("`sysctl -w net.ipv4.tcp_syncookies=2`"), "{refused:?}");
    sandbox.set_syn_cookies("2");
    ratelimit.ok(&attach);
    let syn = || Frame::syn(Ipv4Addr::new(192, 0, 2, 1), port);
    let forged = forge(&sandbox, syn(), FLOOD);
    connected.into_iter().for_each(get);
    let proofs = || ratelimit.json("status")["unknown"]["proofs"].clone();
    let (mut times, begun) = (Vec::new(), Instant::now());
    for to in servers {
        for number in 1..=VISITORS {
            let from = visitor(&sandbox, to.is_ipv4(), number);
            let begin = Instant::now();
            get(connect_from(&sandbox, from, to));
            times.push(begin.elapsed());
        }
    }
    let sent = forged.stop();
    println!("{} visitors beside {sent} forged SYNs: {times:?}", times.len());
    times.sort_unstable();
    // A SYN without an answer would be repeated after a second.
    assert!(times[times.len() / 2] < scaled(Duration::from_millis(500)).min(Duration::from_millis(900)), "{times:?}");
    let proofs = proofs();
    // Each second, a packet passes within the rate.
    assert!(proofs["by_connection"].as_u64().unwrap() >= 1, "{proofs}");
    let within_rate = 2 + begun.elapsed().as_secs();
    assert!(proofs["by_cookie"].as_u64().unwrap() + within_rate >= 2 * u64::from(VISITORS), "{proofs}");
    let cookies = proofs["cookies"]["sent"].as_u64().unwrap();
    let reasons = ratelimit.json("status")["reasons"].clone();
    assert_eq!(reasons["syn-cookie"]["packets"], cookies);
    assert!(cookies > sent / 2, "{cookies} of {sent}");

    // Without cookies, a new visitor shares one packet per second with the flood.
    ratelimit.ok("set --prove off");
    let _forged = forge(&sandbox, syn(), FLOOD);
    let address = SocketAddr::new(VICTIM_IPV4.into(), port);
    let late = visitor(&sandbox, true, 200);
    let outcome = sandbox.peer(|| {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&socket, &SocketAddr::new(late, 0)).unwrap();
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(Duration::from_secs(2))).unwrap();
        connect(&socket, &address)
    });
    assert!(outcome.is_err(), "a visitor without a proof has connected");
    ratelimit.ok("detach --all");
}
