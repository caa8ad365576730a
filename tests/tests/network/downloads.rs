//! Clients that download from the protected host: their acknowledgements are packets that a limit counts.

use std::{
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::AsRawFd as _,
    ptr, thread,
    time::{Duration, Instant},
};

use ratelimit_tests::{
    PATIENCE, PEER_IPV4, PEER_LINK, Ratelimit, Sandbox, VICTIM_IPV4, VICTIM_LINK, compute_checksums, join_no_packets,
};

use crate::receiver::alone;

const BYTES: usize = 40_000_000;
/// Bytes per second, which are 100 Mbit/s with the headers of frames.
const PACE: u32 = 11_940_000;
/// Payload of a full segment with timestamps.
const SEGMENT: u64 = 1_448;
/// New connections of the client meanwhile.
const OTHERS: usize = 10;

/// Downloads from the server, and returns the time and how many other connections of the client have failed meanwhile.
fn download(sandbox: &Sandbox) -> (Duration, usize) {
    let listener = sandbox.victim(|| TcpListener::bind((VICTIM_IPV4, 0))).unwrap();
    let others = sandbox.victim(|| TcpListener::bind((VICTIM_IPV4, 0))).unwrap();
    let [address, other] = [&listener, &others].map(|listener| listener.local_addr().unwrap());
    let mut from = sandbox.peer(|| TcpStream::connect_timeout(&address, PATIENCE)).unwrap();
    let mut to = listener.accept().unwrap().0;
    set_option(&to, libc::SO_MAX_PACING_RATE, PACE);
    // The program is woken seldom, so that the kernel acknowledges by itself.
    set_option(&from, libc::SO_RCVLOWAT, 1 << 20);
    from.set_read_timeout(Some(PATIENCE)).unwrap();
    let begin = Instant::now();
    thread::scope(|scope| {
        scope.spawn(move || to.write_all(&vec![7; BYTES]).unwrap());
        let failed = scope.spawn(|| {
            thread::sleep(Duration::from_secs(1));
            (0..OTHERS).filter(|_| !can_connect(sandbox, other)).count()
        });
        let mut left = BYTES;
        let mut buffer = vec![0; 1 << 20];
        while left > 0 {
            left -= from.read(&mut buffer).unwrap();
        }
        (begin.elapsed(), failed.join().unwrap())
    })
}

/// Sets an option of a socket.
fn set_option(socket: &TcpStream, option: libc::c_int, value: u32) {
    let size = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the value is there, and has this size.
    let result =
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, ptr::from_ref(&value).cast(), size) };
    assert_eq!(result, 0, "{option}: {}", io::Error::last_os_error());
}

/// Returns whether the client can connect before TCP repeats a lost packet, after a second.
fn can_connect(sandbox: &Sandbox, address: SocketAddr) -> bool {
    sandbox.peer(|| TcpStream::connect_timeout(&address, Duration::from_millis(500))).is_ok()
}

#[test]
fn a_download_sends_thousands_of_acknowledgements_and_a_lower_limit_stops_other_connections_of_the_client() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok(&format!("attach {VICTIM_LINK} --front off"));
    // Without offloads, each segment is a frame.
    sandbox.victim(|| compute_checksums(VICTIM_LINK));
    sandbox.peer(|| join_no_packets(PEER_LINK));
    let passed = || ratelimit.json(&format!("why {PEER_IPV4}"))["passed"]["packets"].as_u64().unwrap();
    let segments = BYTES as u64 / SEGMENT;
    let (time, failed) = download(&sandbox);
    let acknowledgements = passed();
    println!("{acknowledgements} packets of the client for {segments} segments in {time:?}");
    // Mostly one for two segments; one for each while the client's kernel answers quickly. The other connections add a few.
    let most = segments + segments / 20;
    assert!((segments / 4..=most).contains(&acknowledgements), "{acknowledgements} for {segments}");
    assert_eq!(failed, 0);
    for (limit, may_fail) in [("1000/s", 1..=OTHERS), ("5000/s", 0..=0)] {
        ratelimit.ok(&format!("limit set default --packets {limit}"));
        let (limited, failed) = download(&sandbox);
        println!("{limited:?} with {limit}, {failed} other connections have failed");
        assert!(may_fail.contains(&failed), "{failed} connections have failed with {limit}");
        // A later acknowledgement stands for those that were dropped.
        assert!(limited < 3 * time, "the download took {limited:?} with {limit}, {time:?} without");
    }
    ratelimit.ok("detach --all");
}
