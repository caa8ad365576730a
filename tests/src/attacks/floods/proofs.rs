//! Forged TCP packets, where first SYNs get SYN cookies and acknowledgements may prove an address.

use std::net::{Ipv4Addr, TcpListener};

use super::new_sources::{establish, most_unknown, send_established};
use crate::{
    Flood, Frame, Sandbox, Sink, VICTIM_IPV4,
    attacks::{
        row::Row,
        stage::{FORGED, SHARE, Stage},
    },
};

const SETUP: &str = "--packets 1000/s --unknown 10k/s --prove tcp";

/// Answers count as drops, as in the status.
pub(in crate::attacks) fn play_syns() -> Row {
    play(Frame::syn, "SYNs to an open port at full speed, each from a new address, which get SYN cookies")
}

/// A forger who guesses a cookie makes an address known.
pub(in crate::attacks) fn play_guesses() -> Row {
    play(Frame::ack, "guessed SYN cookies at full speed, each from a new address")
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
