//! The shipped unit of the server.

use std::{
    fs,
    process::Command,
    time::{Duration, Instant},
};

use ratelimit_tests::{Ratelimit, Sandbox, Systemd};

const UNIT: &str = include_str!("../../../../dist/ratelimit-check.service");

/// Writes the file of the service, with so many requests per day.
fn write(sandbox: &Sandbox, limit: u32) {
    let text = format!(
        "[serve]\nhttp = \"unix:/run/ratelimit-check/check.sock\"\nrules = \"/var/lib/ratelimit-check/rules.toml\"\n\
         usage = \"/var/lib/ratelimit-check/usage.db\"\n\
         [[check]]\nname = \"all\"\nlimits = \"{limit}/d\"\n"
    );
    sandbox.victim(|| fs::write("/run/etc/ratelimit/check.toml", text).unwrap());
}

/// Returns the status of an answer.
fn ask(sandbox: &Sandbox) -> String {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--max-time", "10", "--write-out", "%{http_code}", "--output", "/dev/null"]);
    curl.args(["--unix-socket", "/run/ratelimit-check/check.sock", "--data", "{\"attributes\": {}}"]);
    String::from_utf8(sandbox.output(curl.arg("http://localhost/v1/check")).stdout).unwrap()
}

#[test]
fn the_unit_of_the_server_starts_reloads_and_stops_without_privileges() {
    let sandbox = Sandbox::new();
    let systemd = Systemd::start(&sandbox, &Ratelimit::new(&sandbox), UNIT);
    write(&sandbox, 1);
    assert_eq!(systemd.ok("systemd-analyze verify /run/units/ratelimit.service"), "");
    systemd.ok("systemd-analyze security --offline=true --threshold=15 /run/units/ratelimit.service");
    systemd.ok("systemctl start ratelimit");
    assert_eq!([ask(&sandbox), ask(&sandbox)], ["200", "429"]);
    write(&sandbox, 3);
    systemd.ok("systemctl reload ratelimit");
    let in_force = || systemd.journal().iter().any(|(_, line)| line == "ratelimit: 1 rule in force");
    let begin = Instant::now();
    while !in_force() {
        assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", systemd.journal());
    }
    assert_eq!([ask(&sandbox), ask(&sandbox), ask(&sandbox)], ["200", "200", "429"]);
    assert_eq!(systemd.show("User"), "ratelimit-check");
    systemd.ok("systemctl stop ratelimit");
    assert_eq!(systemd.show("Result"), "success");
    assert!(!sandbox.victim(|| fs::exists("/run/ratelimit-check").unwrap()));
}
