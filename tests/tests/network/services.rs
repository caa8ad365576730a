//! Services and parents, while a flood runs.

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use ratelimit_tests::{Flood, Frame, Ratelimit, Sandbox, VICTIM_IPV4, VICTIM_LINK};
use rustix::net::{AddressFamily, SocketType, bind, connect, ipproto, socket};

use crate::receiver::{FLOODER, PORT, alone, assert_within, receiving};

/// What the web server answers.
const PAGE: [u8; 4_000] = [7; 4_000];

/// A connection of the peer's, from one of its addresses.
fn open(from: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, Some(ipproto::TCP)).unwrap();
    bind(&socket, &SocketAddr::from((from, 0))).unwrap();
    connect(&socket, &to).unwrap();
    TcpStream::from(socket)
}

/// One page over a connection of its own; how long that took.
fn fetch(from: Ipv4Addr, to: SocketAddr) -> Duration {
    let begin = Instant::now();
    let mut stream = open(from, to);
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream.write_all(b"?").unwrap();
    let mut page = Vec::new();
    stream.read_to_end(&mut page).unwrap();
    assert_eq!(page, PAGE);
    begin.elapsed()
}

#[test]
fn a_flood_of_dns_leaves_https_of_the_same_source_untouched() {
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
        // Sockets send through the first queue, so the flood takes the last CPU's.
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
    // A packet that is lost costs a retransmission, after 200 ms at the earliest.
    assert!(*slowest < Duration::from_millis(200), "a page took {slowest:?}");
    let sources = ratelimit.json("sources");
    let mut rows = sources.as_array().unwrap().iter();
    let dns = rows.find(|row| row["source"] == FLOODER.to_string() && row["service"] == "udp/53").unwrap();
    let dropped = dns["dropped"]["packets"].as_u64().unwrap();
    assert!(dropped > offered * 9 / 10 && dropped < offered, "{dropped} of {offered} packets of DNS were dropped");
    // So none of HTTPS was.
    assert_eq!(ratelimit.json("status")["reasons"]["over-packets"]["packets"], dropped);
    ratelimit.ok("detach --all");
}

#[test]
fn a_flood_spread_over_a_prefix_is_held_by_its_parent() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok(&format!("attach {VICTIM_LINK} --packets 100/s --parent /24=2k/s --parent all=5k/s"));
    let ((seconds, offered), _) = receiving(&sandbox, |_| {
        let begin = Instant::now();
        // 250 sources may send 25,000 packets a second by their own limits.
        let offered =
            Flood::of(Frame::udp([10, 9, 7, 1], PORT)).sources(250).send_for(&sandbox, Duration::from_secs(3));
        (begin.elapsed().as_secs_f64(), offered)
    });
    let count = |reason: &str| ratelimit.json("status")["reasons"][reason]["packets"].as_u64().unwrap();
    assert_within(count("within-limit"), 2_000.0 + 2_000.0 * seconds, 0.02);
    assert_eq!(count("within-limit") + count("over-parent") + count("over-packets"), offered);
    // What their parent refused, the sources have not paid for: as soon as it may pass again, all of them may.
    ratelimit.ok("limit set default --packets 100/s");
    let before = count("within-limit");
    Flood::of(Frame::udp([10, 9, 7, 1], PORT)).sources(250).send(&sandbox, 250 * 40);
    let passed = count("within-limit") - before;
    assert!(passed >= 250 * 39, "only {passed} of {} passed", 250 * 40);
    ratelimit.ok("detach --all");
}
