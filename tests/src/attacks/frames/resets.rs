//! Forged segments in the name of a client with a connection, where refused packets get answers.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream, UdpSocket},
    time::Instant,
};

use crate::{
    PATIENCE, PEER_LINK, Ratelimit, Sandbox, Segment, VICTIM_IPV4, VICTIM_LINK,
    attacks::{
        row::{Packets, Row},
        stage::PORT,
    },
    send_raw,
};

const FORGED: u64 = 500;

/// Answers count as packets that pass. The honest packet is one of the client's connection, afterwards.
pub(in crate::attacks) fn play() -> Row {
    let setup = "--packets 1/d --burst 1 --over-limit reject";
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let server = SocketAddr::from((VICTIM_IPV4, PORT));
    let listener = sandbox.victim(|| TcpListener::bind(server)).expect("cannot listen");
    let mut client = sandbox.peer(|| TcpStream::connect_timeout(&server, PATIENCE)).expect("cannot connect");
    let (mut accepted, from) = listener.accept().expect("nobody connects");
    ratelimit.ok(&format!("attach {VICTIM_LINK} {setup}"));
    // The client has spent its limit.
    let spent = sandbox.peer(|| UdpSocket::bind("0.0.0.0:0")).expect("cannot open a socket");
    spent.send_to(b"first", server).expect("cannot send");
    let forged = Segment { flags: 0, acknowledgement: Some(1), ..Segment::syn(from, server) };
    sandbox.peer(|| send_raw(PEER_LINK, &forged.frame(&[]), FORGED as usize));
    let deadline = Instant::now() + PATIENCE;
    while ratelimit.json("status")["reasons"]["over-packets"]["packets"].as_u64() < Some(FORGED) {
        assert!(Instant::now() < deadline, "not all segments were refused");
    }
    let answers = ratelimit.json("status")["replies"]["sent"].as_u64().expect("the status has no answers");
    ratelimit.ok("limit set default --packets 1000/s --burst auto");
    accepted.set_read_timeout(Some(PATIENCE)).expect("cannot set a time");
    let is_alive = client.write_all(b"more").and_then(|()| accepted.read_exact(&mut [0; 4])).is_ok();
    ratelimit.ok("detach --all");
    Row {
        attack: "segments in the name of a client that is connected; answers count as passed",
        setup,
        forged: Packets { offered: FORGED, passed: answers },
        may_pass: Some(0),
        honest: Packets { offered: 1, passed: is_alive.into() },
        may_lose: 0,
    }
}
