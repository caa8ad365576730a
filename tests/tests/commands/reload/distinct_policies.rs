//! A file with thousands of distinct limits.

use ratelimit_tests::{Daemon, Folder, Ratelimit, Sandbox};

use crate::run::limits;

#[test]
fn thousands_of_distinct_limits_apply_at_once() {
    let (sandbox, folder) = (Sandbox::new(), Folder::new());
    let ratelimit = Ratelimit::new(&sandbox);
    let rule = |n: usize| format!("[[rule]]\nsource = \"10.8.{}.{}\"\npackets = \"{}/s\"\n", n >> 8, n & 255, n + 1);
    folder.write(&format!("interfaces = [\"eth0\"]\n{}", (0..3_000).map(rule).collect::<String>()));
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    assert!(daemon.line().contains("in force, rules: 3000 set"));
    assert_eq!(limits(&ratelimit)[2_999], "10.8.11.183 any 3000/s config");
    daemon.end();
    ratelimit.ok("detach --all");
}
