//! Frames of several buffers.

use std::process::Command;

use ratelimit_tests::{Frame, PEER_LINK, Ratelimit, Sandbox, VICTIM_LINK, kernel_at_least, send_raw};
use serde_json::json;

use crate::receiver::{FLOODER, PORT, source};

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
    assert_eq!(row["passed"], json!({"packets": 5, "bytes": 5 * 9_014}));
    assert_eq!(row["dropped"], json!({"packets": 45, "bytes": 45 * 9_014}));
    ratelimit.ok("detach --all");
}
