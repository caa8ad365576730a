//! Traffic during the check.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use ratelimit_tests::{Flood, Frame, Ratelimit, Sandbox, send_raw};

use super::paragraphs;

/// Returns the numbers in a text.
fn numbers(text: &str) -> Vec<u64> {
    text.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
}

#[track_caller]
fn find<'a>(all: &'a [String], beginning: &str) -> &'a str {
    let found = all.iter().find(|paragraph| paragraph.starts_with(beginning));
    assert!(found.is_some(), "{beginning}: {all:#?}");
    found.unwrap()
}

#[test]
fn a_program_that_sees_every_packet_is_good_even_if_it_drops_them() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 10/s --burst 10");
    let flood = Flood::of(Frame::udp([10, 9, 0, 66], 9)).pace(2_000).start(&sandbox);
    let all = paragraphs(&ratelimit, "");
    flood.stop();
    let line = find(&all, "ok traffic: the program sees the received packets (");
    assert!(numbers(line)[0] > 100, "{line}");
    assert_eq!(find(&all, "ok eth0, losses"), "ok eth0, losses: none in a second");
    ratelimit.ok("detach --all");
}

#[test]
fn packets_that_bypass_the_program_and_lost_packets_are_reported() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    // This driver counts packets that are sent out of it as received, and delivers them only after a redirect.
    sandbox.ip("link add ifb0 type ifb");
    sandbox.ip("link set ifb0 up");
    ratelimit.ok("attach ifb0 eth0 --mode generic");
    let stop = AtomicBool::new(false);
    let all = thread::scope(|scope| {
        scope.spawn(|| {
            sandbox.victim(|| {
                while !stop.load(Ordering::Relaxed) {
                    send_raw("ifb0", &Frame::udp([10, 9, 0, 66], 9).bytes(), 100);
                }
            });
        });
        let all = paragraphs(&ratelimit, "");
        stop.store(true, Ordering::Relaxed);
        all
    });
    let found = find(&all, "error ifb0, traffic");
    let count = numbers(found)[1];
    let why = "The driver delivers packets without running the program, so nothing is limited there. Attach it with its \
               --shadow and --capacity, if it has them.";
    let what = format!("the program did not see {count} of {count} packets that arrived in a second");
    assert_eq!(found, format!("error ifb0, traffic: {what}\n{why}"));
    let found = find(&all, "warning ifb0, losses");
    let lost = numbers(found)[3];
    let why = "Packets of allowed sources are lost there like all others.";
    let what = format!("in a second, {count} packets arrived; the card lost 0, driver or stack {lost}");
    assert_eq!(found, format!("warning ifb0, losses: {what}\n{why}"));
    // The kernel does not read both counters at once.
    assert!(count > 100 && lost.abs_diff(count) < count / 10, "{found}");
    assert_eq!(find(&all, "ok eth0, losses"), "ok eth0, losses: none in a second");
    ratelimit.ok("detach --all");
}
