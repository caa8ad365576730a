//! A daemon follows the routes, which say what TCP segments answers with SYN cookies offer.

use std::{
    thread,
    time::{Duration, Instant},
};

use ratelimit_tests::{Daemon, Folder, PATIENCE, Ratelimit, Sandbox};

use super::FILE;
use crate::limit::features::control;

#[test]
fn a_daemon_and_commands_that_turn_cookies_on_offer_what_the_routes_accept() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    sandbox.set_syn_cookies("2");
    sandbox.ip("route add 192.0.2.0/24 dev eth0 advmss 1300");
    folder.write(&format!("{FILE}[settings]\nunknown = \"1k/s\"\nprove = \"tcp\"\n"));
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    assert!(daemon.line().contains("in force"));
    assert_eq!(control(&sandbox).segments, [1_300, 0]);
    sandbox.ip("route change 192.0.2.0/24 dev eth0");
    sandbox.ip("-6 route add 2001:db8:99::/48 dev eth0 mtu 1300");
    let deadline = Instant::now() + PATIENCE;
    while control(&sandbox).segments != [0, 1_240] {
        assert!(Instant::now() < deadline, "{:?}", control(&sandbox).segments);
        thread::sleep(Duration::from_millis(100));
    }
    daemon.end();
    // Without a daemon, a command that turns cookies on reads the routes. Others know nothing of those.
    ratelimit.ok("set --prove off");
    sandbox.ip("-6 route del 2001:db8:99::/48 dev eth0");
    ratelimit.ok("deny add 192.0.2.9");
    assert_eq!(control(&sandbox).segments, [0, 1_240]);
    ratelimit.ok("set --prove tcp");
    assert_eq!(control(&sandbox).segments, [0; 2]);
    ratelimit.ok("detach --all");
}
