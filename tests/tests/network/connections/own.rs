//! Downloads by the protected host.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use ratelimit_tests::{PATIENCE, PEER_IPV4, Ratelimit, Sandbox, VICTIM_LINK};

use crate::receiver::alone;

/// Bytes of a download: several ten thousand packets.
const BYTES: usize = 50_000_000;

/// Downloads from the peer, and returns the time.
fn download(sandbox: &Sandbox) -> Duration {
    let server = sandbox.peer(|| TcpListener::bind((PEER_IPV4, 0))).unwrap();
    let address = server.local_addr().unwrap();
    // Not joined before the download is over: if that fails, nobody connects.
    let sends = thread::spawn(move || server.accept().unwrap().0.write_all(&vec![0; BYTES]).unwrap());
    let time = sandbox.victim(|| {
        let begin = Instant::now();
        let mut from = TcpStream::connect_timeout(&address, PATIENCE).unwrap();
        let (mut buffer, mut received) = (vec![0; 1 << 18], 0);
        from.set_read_timeout(Some(PATIENCE)).unwrap();
        loop {
            match from.read(&mut buffer).unwrap() {
                0 => break,
                bytes => received += bytes,
            }
        }
        assert_eq!(received, BYTES);
        begin.elapsed()
    });
    sends.join().unwrap();
    time
}

#[test]
fn a_download_above_the_limit_takes_hardly_longer_and_bans_no_source() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok(&format!("attach {VICTIM_LINK}"));
    let packets = |reason: &str| ratelimit.json("status")["reasons"][reason]["packets"].as_u64().unwrap();
    let mut ratio = f64::MAX;
    // Other processes disturb a measurement, so the shortest times of alternating downloads are compared.
    for _ in 0..3 {
        let mut shortest = [Duration::MAX; 2];
        for _ in 0..7 {
            for (shortest, limit) in shortest.iter_mut().zip(["--packets 100M/s", "--packets 1000/s --ban 10m"]) {
                ratelimit.ok(&format!("limit set default {limit}"));
                *shortest = download(&sandbox).min(*shortest);
            }
        }
        let [without, with] = shortest.map(|time| time.as_secs_f64());
        println!("50 MB in {with:.3} s with the limit, {without:.3} s without");
        ratio = ratio.min(with / without);
        if ratio <= 1.2 {
            break;
        }
    }
    assert!(ratio <= 1.2, "{ratio}");
    assert!(packets("own-connection") > 50_000 && packets("banned") + packets("over-packets") == 0);
    assert_eq!(ratelimit.json("deny list"), serde_json::json!([]));

    // Without the setting, the limit bans the server, as before.
    ratelimit.ok("set --own off");
    ratelimit.ok("limit set default --packets 10/s --ban 10m");
    let server = sandbox.peer(|| TcpListener::bind((PEER_IPV4, 0))).unwrap();
    let own = sandbox.victim(|| TcpStream::connect(server.local_addr().unwrap())).unwrap();
    let mut sender = server.accept().unwrap().0;
    sender.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    let sent = (0..50).try_for_each(|_| sender.write_all(&vec![0; 1_000_000]));
    assert!(sent.is_err(), "the whole download arrived");
    assert_eq!(ratelimit.json("deny list").as_array().unwrap().len(), 1);
    drop((own, sender));

    // It acts on the next packet, although the source is banned.
    ratelimit.ok("set --own 1M/s");
    download(&sandbox);
    ratelimit.ok("detach --all");
}
