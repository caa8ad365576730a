//! Services and parents under a flood.

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use ratelimit_tests::{Flood, Frame, PATIENCE, Ratelimit, Sandbox, VICTIM_IPV4, VICTIM_LINK, scaled};
use rustix::net::{AddressFamily, SocketType, bind, connect, ipproto, socket};

use crate::receiver::{FLOODER, PORT, alone, assert_within, receiving};

/// Response of the web server.
const PAGE: [u8; 4_000] = [7; 4_000];

/// Opens a connection from an address of the peer.
fn open(from: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, Some(ipproto::TCP)).unwrap();
    bind(&socket, &SocketAddr::from((from, 0))).unwrap();
    connect(&socket, &to).unwrap();
    TcpStream::from(socket)
}

/// Fetches one page over a new connection and returns the duration.
fn fetch(from: Ipv4Addr, to: SocketAddr) -> Duration {
    let begin = Instant::now();
    let mut stream = open(from, to);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"?").unwrap();
    let mut page = Vec::new();
    stream.read_to_end(&mut page).unwrap();
    assert_eq!(page, PAGE);
    begin.elapsed()
}

#[test]
fn a_dns_flood_does_not_affect_https_of_the_same_source() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    sandbox.add_peer_address(FLOODER);
    ratelimit.ok(&format!("attach {VICTIM_LINK} --packets 20k/s"));
    ratelimit.ok("limit set default --service udp/53 --packets 100/s");
    let https = SocketAddr::from((VICTIM_IPV4, 443));
    let listener = sandbox.victim(|| TcpListener::bind(https)).unwrap();
    const PAGES: usize = 200;
    let (pages, offered) = thread::scope(|scope| {
        scope.spawn(|| {
            for stream in listener.incoming().take(PAGES) {
                let mut stream = stream.unwrap();
                stream.read_exact(&mut [0]).unwrap();
                stream.write_all(&PAGE).unwrap();
            }
        });
        // Sockets send through the first queue, so the flood uses the last CPU's queue.
        let last = thread::available_parallelism().unwrap().get() - 1;
        let flood = Flood::of(Frame::udp(FLOODER, 53)).on_cpu(last).start(&sandbox);
        while flood.sent() < 50_000 {
            thread::yield_now();
        }
        let pages: Vec<Duration> = sandbox.peer(|| (0..PAGES).map(|_| fetch(FLOODER, https)).collect());
        (pages, flood.stop())
    });
    let slowest = pages.iter().max().unwrap();
    println!("{PAGES} pages, the slowest in {slowest:?}, beside {offered} packets of DNS");
    // A lost packet causes a retransmission after at least 200 ms.
    assert!(*slowest < scaled(Duration::from_millis(200)), "a page took {slowest:?}");
    let sources = ratelimit.json("sources");
    let dropped = ratelimit.json("status")["reasons"]["over-packets"]["packets"].as_u64().unwrap();
    assert!(dropped > offered * 9 / 10 && dropped < offered, "{dropped} of {offered} packets of DNS were dropped");
    for row in sources.as_array().unwrap() {
        let of_source = &row["dropped"];
        let packets = of_source["packets"].as_u64().unwrap();
        match row["service"].as_str() {
            Some("udp/53") => {
                let error = of_source["error"].as_u64().unwrap();
                assert!(packets.abs_diff(dropped) <= 2 * error, "{row}");
            }
            _ => assert_eq!(packets, 0, "{row}"),
        }
    }
    ratelimit.ok("detach --all");
}

#[test]
fn a_parent_limits_a_flood_from_a_whole_prefix() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok(&format!("attach {VICTIM_LINK} --packets 100/s --parent /24=2k/s --parent all=5k/s"));
    // By their own limits 250 sources could send 25,000 packets per second.
    let (offered, received) = receiving(&sandbox, |_| {
        Flood::of(Frame::udp([10, 9, 7, 1], PORT)).sources(250).send_for(&sandbox, Duration::from_secs(3))
    });
    let count = |reason: &str| ratelimit.json("status")["reasons"][reason]["packets"].as_u64().unwrap();
    let arrivals = received.of_all();
    assert_eq!(count("within-limit"), arrivals.count);
    assert_within(arrivals.count, 2_000.0 + 2_000.0 * arrivals.seconds(), 0.02);
    assert_eq!(count("within-limit") + count("over-parent") + count("over-packets"), offered);
    // Packets that the parent refused are not charged to the sources. As soon as the parent admits packets, all sources
    // may send.
    ratelimit.ok("limit set default --parent off");
    let before = count("within-limit");
    Flood::of(Frame::udp([10, 9, 7, 1], PORT)).sources(250).send(&sandbox, 250 * 40);
    let passed = count("within-limit") - before;
    assert!(passed >= 250 * 39, "only {passed} of {} passed", 250 * 40);
    ratelimit.ok("detach --all");
}
