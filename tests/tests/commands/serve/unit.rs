//! The shipped unit of the server.

use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt as _, chown},
        net::UnixListener,
    },
    process::Command,
};

use ratelimit_tests::{Ratelimit, Sandbox, Systemd, wait_until};

const UNIT: &str = include_str!("../../../../dist/ratelimit-check.service");

/// The socket of the daemon, which only root and the group of the server can open.
const STOPS: &str = "/run/ratelimit-stops/socket";

/// Listens as the daemon does.
fn listen(sandbox: &Sandbox) -> UnixListener {
    sandbox.victim(|| {
        fs::create_dir("/run/ratelimit-stops").unwrap();
        let listener = UnixListener::bind(STOPS).unwrap();
        chown(STOPS, None, Some(991)).unwrap();
        fs::set_permissions(STOPS, fs::Permissions::from_mode(0o660)).unwrap();
        listener
    })
}

/// Writes the file of the service, with so many requests per day.
fn write(sandbox: &Sandbox, limit: u32) {
    let text = format!(
        "[serve]\nhttp = \"unix:/run/ratelimit-check/check.sock\"\nrules = \"/var/lib/ratelimit-check/rules.toml\"\n\
         usage = \"/var/lib/ratelimit-check/usage.db\"\nstops = \"{STOPS}\"\n\
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
    assert!(UNIT.contains("\nMemoryMax=2G\n") && UNIT.contains("\nWatchdogSec=30s\n"));
    let unit = UNIT.replace("RestartSec=1s", "RestartSec=1ms\nTimeoutAbortSec=1s");
    let unit = unit.replace("WatchdogSec=30s", "WatchdogSec=2s");
    let systemd = Systemd::start(&sandbox, &Ratelimit::new(&sandbox), &unit);
    write(&sandbox, 1);
    assert_eq!(systemd.ok("systemd-analyze verify /run/units/ratelimit.service"), "");
    systemd.ok("systemd-analyze security --offline=true --threshold=15 /run/units/ratelimit.service");
    let _daemon = listen(&sandbox);
    systemd.ok("systemctl start ratelimit");
    assert_eq!([ask(&sandbox), ask(&sandbox)], ["200", "429"]);
    write(&sandbox, 3);
    systemd.ok("systemctl reload ratelimit");
    let connected = format!("ratelimit: stops: the daemon answers on {STOPS}");
    for expected in ["ratelimit: 1 rule in force", &connected] {
        wait_until(expected, || systemd.journal().iter().any(|(_, line)| line == expected));
    }
    assert_eq!([ask(&sandbox), ask(&sandbox), ask(&sandbox)], ["200", "200", "429"]);
    assert_eq!(systemd.show("User"), "ratelimit-check");
    // Systemd gives up on other services that end five times in ten seconds.
    for ends in 1..=6 {
        systemd.ok("systemctl kill --signal=ABRT ratelimit");
        wait_until("systemd restarts the server", || {
            systemd.show("NRestarts") == ends.to_string() && systemd.show("ActiveState") == "active"
        });
    }
    // A server that hangs is started again too.
    systemd.ok("systemctl kill --signal=STOP ratelimit");
    wait_until("systemd restarts the server that hangs", || {
        systemd.show("NRestarts") == "7" && systemd.show("ActiveState") == "active"
    });
    systemd.ok("systemctl stop ratelimit");
    assert_eq!(systemd.show("Result"), "success");
    assert!(!sandbox.victim(|| fs::exists("/run/ratelimit-check").unwrap()));
}
