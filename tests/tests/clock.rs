//! Suspends of the host, and changes of the wall clock. These tests have a program of their own: every daemon on the
//! machine notices when the clock is set.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{net::Ipv4Addr, process::Command};

use ratelimit_tests::{Daemon, Flood, Folder, Frame, Ratelimit, Sandbox};
use rustix::time::{ClockId, clock_gettime, clock_settime};
use serde_json::Value;

/// Returns a command as it runs after the host was suspended for so many seconds: in a time namespace whose boot clock
/// is ahead of the monotonic one.
fn after_suspend(ratelimit: &Ratelimit<'_>, seconds: u32, words: &str) -> Command {
    let inner = ratelimit.command(words);
    let mut command = Command::new("unshare");
    command
        .args(["--time", "--fork", "--boottime", &seconds.to_string()])
        .arg(inner.get_program())
        .args(inner.get_args());
    command
}

/// Sends ten packets from a source. Returns how many were dropped.
fn dropped(sandbox: &Sandbox, ratelimit: &Ratelimit<'_>, source: Ipv4Addr) -> u64 {
    let count = || ratelimit.json("status")["dropped"]["packets"].as_u64().unwrap();
    let before = count();
    Flood::of(Frame::udp(source, 9)).send(sandbox, 10);
    count() - before
}

#[test]
fn a_suspend_counts_for_the_ends_of_rules_and_bans() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let [banned, long_banned, denied, long_denied] =
        [[10, 9, 0, 66], [10, 9, 4, 1], [10, 9, 1, 1], [10, 9, 2, 1]].map(Ipv4Addr::from);
    ratelimit.ok("attach eth0");
    ratelimit.ok("limit set 10.9.0.0/24 --packets 5/s --burst 5 --ban 30m");
    ratelimit.ok("limit set 10.9.4.0/24 --packets 5/s --burst 5 --ban 2h");
    ratelimit.ok("deny add 10.9.1.1 --for 30m");
    ratelimit.ok("deny add 10.9.2.0/24 --for 2h");
    ratelimit.ok("limit set 10.9.3.1 --packets 1/s");
    for source in [banned, long_banned, denied, long_denied] {
        assert!(dropped(&sandbox, &ratelimit, source) >= 5);
        assert_eq!(dropped(&sandbox, &ratelimit, source), 10);
    }
    // The second command finds nothing more to do.
    for _ in 0..2 {
        let output = ratelimit.output(&mut after_suspend(&ratelimit, 3_600, "deny list --json"));
        let list: Vec<Value> = serde_json::from_str(&output.stdout).unwrap();
        let left = |rule: &Value| rule["expires_in_seconds"].as_u64().unwrap();
        let all: Vec<_> = list.iter().map(|rule| (rule["source"].as_str().unwrap(), left(rule) / 60)).collect();
        assert_eq!(all, [("10.9.2.0/24", 59), ("10.9.4.1", 59)], "{list:?}");
    }
    assert_eq!(dropped(&sandbox, &ratelimit, denied), 0);
    assert_eq!(dropped(&sandbox, &ratelimit, long_denied), 10);
    assert!(dropped(&sandbox, &ratelimit, banned) < 10);
    assert_eq!(dropped(&sandbox, &ratelimit, long_banned), 10);
    assert!(ratelimit.ok("limit list").contains("10.9.3.1"));
    ratelimit.ok("detach --all");
}

#[test]
fn a_daemon_computes_the_ends_of_rules_again_when_the_clock_is_set() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    folder.write("interfaces = [\"eth0\"]\n[[rule]]\nsource = \"10.9.0.0/24\"\npolicy = \"deny\"\nuntil = 2040-01-01T00:00:00Z\n");
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    for _ in 0..3 {
        // Setting it to the present time moves it by less than a millisecond, and the kernel reports it all the same.
        clock_settime(ClockId::Realtime, clock_gettime(ClockId::Realtime)).unwrap();
        assert_eq!(daemon.line(), "ratelimit: the clock was set, rules with another end: 0");
    }
    // The rule ends sooner than the file says, as if the clock had been ahead.
    ratelimit.ok("deny del 10.9.0.0/24");
    clock_settime(ClockId::Realtime, clock_gettime(ClockId::Realtime)).unwrap();
    assert_eq!(daemon.line(), "ratelimit: the clock was set, rules with another end: 1");
    assert_eq!(ratelimit.json("deny list")[0]["source"], "10.9.0.0/24");
    daemon.end();
    ratelimit.ok("detach --all");
}
