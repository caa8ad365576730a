//! A change of a limit is killed, and a source goes on sending. It may not send a second burst.

use ratelimit_tests::{Fault, Flood, Frame, Ratelimit, Sandbox, traced};

use super::faults::{CALLS, changes};

/// A limit before the change, and after it.
const LIMITS: [[&str; 2]; 2] = [
    [
        "limit set default --service udp/9 --packets 1/h --burst 100",
        "limit set default --service udp/9 --packets 1/h --burst 120",
    ],
    ["limit set 10.9.0.0/16 --packets 1/h --burst 100", "limit set 10.9.0.0/16 --packets 1/h --burst 120"],
];
/// The most that may pass: the larger burst, and one more.
const MOST: u64 = 121;
/// Packets of one source before the change, so many that it has a bucket. It sends as many again at each further step.
const PACKETS: u64 = 90;

#[test]
#[ignore = "slow: cargo xtask crash"]
fn a_killed_change_of_a_limit_forgets_no_debt() {
    for [before, after] in LIMITS {
        let sandbox = Sandbox::new();
        let ratelimit = Ratelimit::new(&sandbox);
        ratelimit.ok("attach eth0 --packets 1/h --burst 2 --max-sources 1000 --admissions 10M/s");
        ratelimit.ok(before);
        let change = |fault| traced(&sandbox, &ratelimit.command(after), "", &CALLS, fault);
        let dropped = || ratelimit.json("status")["dropped"]["packets"].as_u64().unwrap();
        // What the first run leaves, the second one finds.
        drop(change(None));
        let (mut all, mut sources) = (0, 0);
        for place in 0.. {
            ratelimit.ok(before);
            let calls = changes(change(None).calls);
            ratelimit.ok(before);
            let Some(call) = calls.get(place) else { break };
            sources += 1;
            let send = || Flood::of(Frame::udp([10, 9, 1, place as u8], 9)).send(&sandbox, PACKETS);
            let start = dropped();
            send();
            drop(change(Some((call.name, call.number, Fault::Signal("KILL")))));
            // The killed command may have written the limit, but the source charges the old one until a command opens the
            // instance. So none may run before these packets.
            send();
            let end = dropped();
            drop(ratelimit.run(after));
            // Others need all buckets, so the source has none any more.
            Flood::of(Frame::udp([10, 10, 0, 1], 10)).sources(8_192).send(&sandbox, 100_000);
            let again = dropped();
            send();
            let passed = 3 * PACKETS - (end - start) - (dropped() - again);
            assert!(passed <= MOST, "{passed} passed after a kill at {} {}: {}", call.name, call.number, call.text);
            all += passed;
        }
        // Few sources share their levels with another one.
        assert!(sources > 5 && all >= sources * PACKETS, "{all} packets of {sources} sources passed");
        ratelimit.ok("detach --all");
    }
}
