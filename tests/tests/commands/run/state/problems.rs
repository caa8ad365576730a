//! State files that cannot be read or written. The daemon works without them.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    thread,
    time::Duration,
};

use ratelimit_tests::{Ratelimit, Sandbox};

use super::{LIMITS, file, folder, start};

#[test]
fn a_file_that_cannot_be_used_is_reported_in_one_line() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let (folder, state) = folder();
    folder.write(&file(&state, LIMITS));
    let good = "{\"format\":\"ratelimit-state\",\"version\":1,\"written\":0,\"debts\":0,\"bans\":0}\n";
    let mut garbage = vec![0xff; 1 << 20];
    garbage.push(b'\n');
    for (content, mode, problem) in [
        (b"garbage".as_slice(), 0o600, "is not a state file"),
        (&garbage, 0o600, "stream did not contain valid UTF-8"),
        (good.replace("s\":0", "s\":2").as_bytes(), 0o600, "is not complete"),
        (good.replace("version\":1", "version\":7").as_bytes(), 0o600, "is of version 7 of the format, not 1"),
        (good.as_bytes(), 0o622, "other users may write it"),
    ] {
        fs::write(&state, content).unwrap();
        fs::set_permissions(&state, Permissions::from_mode(mode)).unwrap();
        let (mut daemon, line) = start(&sandbox, &ratelimit, &folder);
        assert_eq!(line, format!("ratelimit: starting without the state: {}: {problem}", state.display()));
        let line = daemon.line();
        assert!(line.ends_with("in force, rules: 2 set, 0 deleted, 0 unchanged; attached to eth0"), "{line}");
        // The next file is good.
        daemon.end();
        assert!(fs::read_to_string(&state).unwrap().starts_with(&good[..44]));
        ratelimit.ok("detach --all");
    }
}

#[test]
fn a_failure_to_write_is_reported_once_and_so_is_its_end() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let (folder, state) = folder();
    let missing = state.with_file_name("missing");
    let state = missing.join("state");
    folder.write(&(file(&state, LIMITS) + "interval = \"1s\"\n"));
    let (mut daemon, line) = start(&sandbox, &ratelimit, &folder);
    assert!(line.ends_with("attached to eth0"), "{line}");
    let text = "the state is not written, so a reboot forgets debts and bans";
    let reason = "No such file or directory (os error 2)";
    assert_eq!(daemon.line(), format!("ratelimit: {text}: {}: {reason}", state.display()));
    // Two more times.
    thread::sleep(Duration::from_millis(2_500));
    ratelimit.ok("reload");
    assert!(daemon.line().ends_with("reloaded, rules: 0 set, 0 deleted, 2 unchanged"));
    fs::create_dir(&missing).unwrap();
    assert_eq!(daemon.line(), "ratelimit: the state is written again");
    assert!(state.exists());
    // Without the table, the daemon writes no more.
    folder.write(&format!("interfaces = [\"eth0\"]\n{LIMITS}"));
    assert!(daemon.line().contains("reloaded"));
    fs::remove_file(&state).unwrap();
    daemon.end();
    assert!(!state.exists());
    ratelimit.ok("detach --all");
}
