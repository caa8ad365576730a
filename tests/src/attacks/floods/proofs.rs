//! Forged TCP packets, where first SYNs get SYN cookies and acknowledgements may prove an address.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use rustix::net::{Shutdown, shutdown, sockopt::set_socket_linger};

use super::new_sources::{establish, most_unknown, send_established};
use crate::{
    Flood, Frame, FrameReceiver, PATIENCE, Sandbox, Segment, Sink, VICTIM_IPV4, VICTIM_LINK,
    attacks::{
        row::{Packets, Row},
        stage::{FORGED, SHARE, Stage},
    },
    compute_checksums,
};

const SETUP: &str = "--packets 1000/s --unknown 10k/s --prove tcp";

const TIME: Duration = Duration::from_secs(2);
/// A client without a network stack, and how often it sends its acknowledgement.
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 77);
const REPEATS: u64 = 400;

/// Answers count as drops, as in the status.
pub(in crate::attacks) fn play_syns() -> Row {
    play(Frame::syn, "SYNs to an open port at full speed, each from a new address, which get SYN cookies")
}

/// A forger who guesses a cookie makes an address known.
pub(in crate::attacks) fn play_guesses() -> Row {
    play(Frame::ack, "guessed SYN cookies at full speed, each from a new address")
}

/// All SYNs are in the name of one victim, which gets the answers. They count as packets that pass.
pub(in crate::attacks) fn play_victim() -> Row {
    let setup =
        "--packets 1000/s --unknown 10k/s --prove tcp; limit set default --service tcp-syn --packets 5/s --burst 5";
    let (mut stage, peer, _listener, port) = listening(setup);
    stage.begin();
    stage.during(|_| Flood::of(Frame::syn(FORGED, port)), |_| thread::sleep(TIME));
    let (offered, most) = (stage.attackers().offered, stage.bound(5, 5));
    let forged = Packets { offered, passed: peer.received() };
    stage.row_of("SYNs at full speed in the name of one victim; answers count as passed", forged, Some(most))
}

/// One acknowledgement of a cookie opens a connection each time, once the one before it has ended. Connections that the
/// server gets count as packets that pass.
pub(in crate::attacks) fn play_repeated_cookie() -> Row {
    let setup = "--packets 1000/s; limit set default --service tcp-syn --packets 1/m; limit set default --service tcp/8080 --packets 10/s --burst 10";
    let sandbox = Sandbox::new();
    sandbox.set_syn_cookies("2");
    let server = SocketAddr::from((VICTIM_IPV4, 8080));
    let listener = sandbox.victim(|| TcpListener::bind(server)).expect("cannot listen");
    sandbox.victim(|| compute_checksums(VICTIM_LINK));
    let frames = FrameReceiver::at_the_peer(&sandbox);
    sandbox.ip(&format!("neigh replace {CLIENT} lladdr 02:00:00:00:00:0c dev {VICTIM_LINK}"));
    let mut stage = Stage::on(sandbox, setup);
    let syn = Segment::syn((CLIENT, 40_000).into(), server);
    stage.attack_raw(&syn.frame(&[]), 1);
    let deadline = Instant::now() + PATIENCE;
    let number = loop {
        if let Some((answer, _)) = frames.next().and_then(|frame| syn.answer(&[], &frame)) {
            break answer.sequence_number;
        }
        assert!(Instant::now() < deadline, "the SYN gets no answer");
    };
    let acknowledgement = Segment { options: Vec::new(), ..syn.acknowledging(number) }.frame(&[]);
    let passed = thread::scope(|scope| {
        let accepted = scope.spawn(|| listener.incoming().map_while(Result::ok).map(end).count());
        stage.attack(&Flood::of(acknowledgement).pace(REPEATS / TIME.as_secs()), REPEATS);
        // Nobody waits for connections any more.
        shutdown(&listener, Shutdown::Read).expect("cannot stop the server");
        accepted.join().expect("the server panicked") as u64
    });
    let most = stage.bound(10, 10);
    let forged = Packets { offered: REPEATS, passed };
    stage.row_of("one SYN, and its cookie sent back 400 times; connections count as passed", forged, Some(most))
}

/// Ends a connection at once, with a reset.
fn end(connection: TcpStream) {
    set_socket_linger(&connection, Some(Duration::ZERO)).expect("cannot set an option");
}

fn play(frame: impl Fn(Ipv4Addr, u16) -> Frame, attack: &'static str) -> Row {
    let (mut stage, _peer, _listener, port) = listening(SETUP);
    establish(&mut stage);
    stage.during(|part| Flood::of(frame(FORGED, port)).endless(part * SHARE), send_established);
    let most = most_unknown(&stage);
    stage.row(attack, Some(most))
}

/// Attaches beside a listener, and returns its port. The peer counts answers.
fn listening(setup: &'static str) -> (Stage, Sink, TcpListener, u16) {
    let sandbox = Sandbox::new();
    let peer = Sink::at_the_peer(&sandbox);
    sandbox.set_syn_cookies("2");
    let listener = sandbox.victim(|| TcpListener::bind((VICTIM_IPV4, 0))).expect("cannot listen");
    let port = listener.local_addr().expect("a listener has an address").port();
    (Stage::on(sandbox, setup), peer, listener, port)
}
