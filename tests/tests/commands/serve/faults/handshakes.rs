//! Another machine that opens very many connections with encryption, and never agrees on keys.

use std::{io::Write as _, net::TcpStream, time::Instant};

use ratelimit_tests::{Authority, Sandbox, VICTIM_IPV4};

use super::{
    super::access::{Open, PORT, TOKENS},
    OF_ONE, OTHERS, Taken, recover,
};

#[test]
#[ignore = "slow: cargo xtask faults --requests"]
fn handshakes_that_never_end_keep_no_other_address_waiting() {
    let sandbox = Sandbox::new();
    let authority = Authority::new("authority");
    let server = Open::start(&sandbox, &authority);
    let (_, token, _) = TOKENS[0];
    assert_eq!(server.check(&authority, Some(token)).status, 200);
    let before = Taken::by(&server.daemon);
    let begin = Instant::now();
    let connections = sandbox.peer(|| {
        let connect = |number| {
            let mut stream = TcpStream::connect((VICTIM_IPV4, PORT)).unwrap();
            // The first bytes of a handshake with a message of 16 kB, nothing, and garbage.
            let _ = match number % 3 {
                0 => stream.write_all(&[0x16, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xfc, 3, 3]),
                1 => Ok(()),
                _ => stream.write_all(&[0xff; 64]),
            };
            stream
        };
        (0..6_000).map(connect).collect::<Vec<_>>()
    });
    let opened = begin.elapsed();
    let asked = Instant::now();
    assert_eq!(server.check(&authority, Some(token)).status, 200);
    let most = Taken::by(&server.daemon);
    println!("6,000 in {opened:?}, an answer within {:?}: {before:?}, then {most:?}", asked.elapsed());
    assert!(most.files <= before.files + OF_ONE + OTHERS && most.files > before.files + OF_ONE / 2, "{most:?}");
    before.check_growth(most, 64);
    recover(&server.daemon, before);
    drop(connections);
    assert_eq!(server.check(&authority, Some(token)).status, 200);
}
