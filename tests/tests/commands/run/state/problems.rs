//! State files that cannot be read or written. The daemon works without them.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    thread,
    time::Duration,
};

use ratelimit_tests::{Ratelimit, Sandbox};
use rustix::process::Signal;

use super::{LIMITS, file, folder, start};

const NOT_WRITTEN: &str = "the state is not written, so a reboot forgets debts and bans";

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
        (b"", 0o600, "is not a state file"),
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
        let is_damaged = content.is_empty() || content == garbage;
        let is_other = !is_damaged && !content.starts_with(&good.as_bytes()[..30]);
        let aside = state.with_file_name("state.damaged");
        daemon.process.signal(Signal::TERM);
        if is_damaged {
            let expected = format!("ratelimit: the state file was damaged, and has the name {} now", aside.display());
            assert_eq!(daemon.line(), expected);
        } else if is_other {
            let reason = "is not a state file, and is not replaced: delete it, or write another path into [state]";
            assert_eq!(daemon.line(), format!("ratelimit: {NOT_WRITTEN}: {}: {reason}", state.display()));
        }
        daemon.end();
        // The next file is good, unless there is another one.
        let after = fs::read(&state).unwrap();
        assert!(if is_other { after == content } else { after.starts_with(&good.as_bytes()[..44]) });
        assert!(!is_damaged || fs::read(&aside).unwrap() == content);
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
    let reason = "No such file or directory (os error 2)";
    assert_eq!(daemon.line(), format!("ratelimit: {NOT_WRITTEN}: {}: {reason}", state.display()));
    let findings = ratelimit.run("doctor").stdout;
    assert!(findings.contains(&format!("{NOT_WRITTEN}: {}", state.display())), "{findings}");
    // Two more times.
    thread::sleep(Duration::from_millis(2_500));
    ratelimit.ok("reload");
    assert!(daemon.line().ends_with("reloaded, rules: 0 set, 0 deleted, 2 unchanged"));
    // Another wrong path is another problem.
    let second = missing.with_file_name("second").join("state");
    folder.write(&(file(&second, LIMITS) + "interval = \"1s\"\n"));
    assert!(daemon.line().contains("reloaded"));
    assert_eq!(daemon.line(), format!("ratelimit: {NOT_WRITTEN}: {}: {reason}", second.display()));
    folder.write(&(file(&state, LIMITS) + "interval = \"1s\"\n"));
    assert!(daemon.line().contains("reloaded"));
    assert_eq!(daemon.line(), format!("ratelimit: {NOT_WRITTEN}: {}: {reason}", state.display()));
    // Without an instance, nothing is written, and nothing is said.
    ratelimit.ok("detach --all");
    thread::sleep(Duration::from_millis(1_500));
    ratelimit.ok("reload");
    let line = daemon.line();
    assert!(line.contains("reloaded"), "{line}");
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

#[test]
fn no_snapshot_goes_where_others_may_write_or_replaces_the_configuration() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let (folder, state) = folder();
    folder.write(&file(&folder.file(), LIMITS));
    let problem = "[state]: the state file is this file, which a snapshot would replace: write another path";
    let checked = ratelimit.run(&format!("check {}", folder.file().display()));
    assert!(checked.stdout.contains(problem), "{}", checked.stdout);

    let open = state.with_file_name("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
    folder.write(&file(&open.join("state"), LIMITS));
    let (mut daemon, line) = start(&sandbox, &ratelimit, &folder);
    let reason = format!("other users can write to {}, and so change the limits", open.display());
    assert!(line.starts_with(&format!("ratelimit: starting without the state: {reason}")), "{line}");
    assert!(daemon.line().ends_with("attached to eth0"));
    daemon.process.signal(Signal::TERM);
    let line = daemon.line();
    assert!(line.starts_with(&format!("ratelimit: {NOT_WRITTEN}: {reason}")), "{line}");
    daemon.end();
    assert!(!open.join("state").exists());
    ratelimit.ok("detach --all");
}
