//! Forged TCP packets, where first SYNs get SYN cookies and acknowledgements may prove an address.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

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
    let sandbox = Sandbox::new();
    let peer = Sink::at_the_peer(&sandbox);
    sandbox.set_syn_cookies("2");
    let listener = sandbox.victim(|| TcpListener::bind((VICTIM_IPV4, 0))).expect("cannot listen");
    let port = listener.local_addr().expect("a listener has an address").port();
    let mut stage = Stage::on(
        sandbox,
        "--packets 1000/s --unknown 10k/s --prove tcp; limit set default --service tcp-syn --packets 5/s --burst 5",
    );
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
    let accepted = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&accepted);
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            // It ends at once, with a reset.
            let _ = rustix::net::sockopt::set_socket_linger(&connection, Some(Duration::ZERO));
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
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
    for _ in 0..REPEATS {
        stage.attack_raw(&acknowledgement, 1);
        thread::sleep(Duration::from_millis(5));
    }
    let most = stage.bound(10, 10);
    let forged = Packets { offered: REPEATS, passed: accepted.load(Ordering::Relaxed) };
    stage.row_of("one SYN, and its cookie sent back 400 times; connections count as passed", forged, Some(most))
}

fn play(frame: impl Fn(Ipv4Addr, u16) -> Frame, attack: &'static str) -> Row {
    let sandbox = Sandbox::new();
    let _peer = Sink::at_the_peer(&sandbox);
    sandbox.set_syn_cookies("2");
    let listener = sandbox.victim(|| TcpListener::bind((VICTIM_IPV4, 0))).expect("cannot listen");
    let port = listener.local_addr().expect("a listener has an address").port();
    let mut stage = Stage::on(sandbox, SETUP);
    establish(&mut stage);
    stage.during(|part| Flood::of(frame(FORGED, port)).endless(part * SHARE), send_established);
    let most = most_unknown(&stage);
    stage.row(attack, Some(most))
}
