//! Frames of several buffers, also after the MTU was raised.

use std::process::Command;

use aya::programs::XdpMode;
use ratelimit_common::{limits::policy::Policy, reason::Reason};
use ratelimit_dataplane::program::loader::Settings;
use ratelimit_tests::{Bytecode, Frame, PEER_LINK, Ratelimit, Sandbox, VICTIM_LINK, kernel_at_least, send_raw};
use serde_json::json;

use crate::receiver::{FLOODER, PORT, source};

/// An MTU that needs several buffers.
const JUMBO: u32 = 9_000;

/// The bytes of its longest frame.
const FRAME: u64 = JUMBO as u64 + 14;

/// Sets the MTU of the peer's link, which decides how long frames are that the victim receives. Returns whether the
/// kernel permits it.
fn set_peer_mtu(sandbox: &Sandbox) -> bool {
    let (link, mtu) = (PEER_LINK, JUMBO.to_string());
    sandbox.peer(|| Command::new("ip").args(["link", "set", link, "mtu", &mtu]).output()).unwrap().status.success()
}

fn send(sandbox: &Sandbox, count: usize) {
    let frame = Frame::udp(FLOODER, PORT).length(FRAME as usize).bytes();
    sandbox.peer(|| send_raw(PEER_LINK, &frame, count));
}

#[test]
fn longer_frames_are_limited_and_counted_after_the_mtu_was_raised() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    // Before Linux 5.18, the kernel refuses the new MTU in native mode, as another test shows.
    let modes: &[&str] = if kernel_at_least(5, 18) { &["native", "generic"] } else { &["generic"] };
    for mode in modes {
        ratelimit.ok(&format!("attach {VICTIM_LINK} --mode {mode} --packets 1/h --burst 5 --sample off"));
        sandbox.ip(&format!("link set {VICTIM_LINK} mtu {JUMBO}"));
        assert!(set_peer_mtu(&sandbox), "{mode}");
        send(&sandbox, 50);
        let row = source(&ratelimit, "10.9.0.66");
        assert_eq!(row["passed"], json!({"packets": 5, "bytes": 5 * FRAME, "estimated": true}), "{mode}");
        assert_eq!(row["dropped"], json!({"packets": 45, "bytes": 45 * FRAME, "estimated": false}), "{mode}");
        // The driver accepts another program too.
        ratelimit.ok("limit set 10.0.0.0/8 --packets 1/s --service udp/53");
        send(&sandbox, 50);
        assert_eq!(
            source(&ratelimit, "10.9.0.66")["dropped"],
            json!({"packets": 95, "bytes": 95 * FRAME, "estimated": false}),
            "{mode}"
        );
        if kernel_at_least(6, 3) {
            let found = ratelimit.run(&format!("doctor {VICTIM_LINK}")).stdout;
            let expected = " eth0, mtu: 9000, and its driver supports frames of several buffers";
            assert_eq!(found.contains(expected), *mode == "native", "{mode}: {found}");
        }
        ratelimit.ok("detach --all");
        sandbox.ip(&format!("link set {VICTIM_LINK} mtu 1500"));
        let words = ["link", "set", PEER_LINK, "mtu", "1500"];
        assert!(sandbox.peer(|| Command::new("ip").args(words).status()).unwrap().success());
    }
}

#[test]
fn the_program_for_one_buffer_keeps_the_mtu_in_native_mode_and_sees_whole_frames_in_generic_mode() {
    for mode in [XdpMode::Driver, XdpMode::Skb] {
        let sandbox = Sandbox::new();
        let mut bytecode = Bytecode::with_kernel_clock_and(Settings { frags: false, ..Settings::default() });
        bytecode.attach(&sandbox, VICTIM_LINK, mode);
        bytecode.set("10.9.0.66", Policy::DENIED);
        sandbox.ip(&format!("link set {VICTIM_LINK} mtu {JUMBO}"));
        let is_permitted = set_peer_mtu(&sandbox);
        assert_eq!(is_permitted, matches!(mode, XdpMode::Skb));
        if is_permitted {
            send(&sandbox, 50);
            let denied = bytecode.counts()[Reason::Denied as usize].1;
            assert_eq!((denied.packets, denied.bytes), (50, 50 * FRAME));
        }
    }
}

#[test]
fn jumbo_frames_are_limited_and_counted_with_all_bytes() {
    if !kernel_at_least(5, 18) {
        println!("skipped: frames of several buffers need Linux 5.18");
        return;
    }
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    sandbox.ip(&format!("link set {VICTIM_LINK} mtu 9000"));
    let words = ["link", "set", PEER_LINK, "mtu", "9000"];
    assert!(sandbox.peer(|| Command::new("ip").args(words).status()).unwrap().success());
    // A sample would represent more packets than were sent.
    ratelimit.ok(&format!("attach {VICTIM_LINK} --packets 1/h --burst 5 --sample off"));
    assert_eq!(ratelimit.json("status")["interfaces"][0]["mode"], "native");
    let frame = Frame::udp(FLOODER, PORT).length(9_014).bytes();
    sandbox.peer(|| send_raw(PEER_LINK, &frame, 50));
    let row = source(&ratelimit, "10.9.0.66");
    assert_eq!(row["passed"], json!({"packets": 5, "bytes": 5 * 9_014, "estimated": true}));
    assert_eq!(row["dropped"], json!({"packets": 45, "bytes": 45 * 9_014, "estimated": false}));
    ratelimit.ok("detach --all");
}
