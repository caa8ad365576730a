//! Folders, locks and pins that another user could change: every command refuses them, and says what to do.

use std::{fs, os::unix::fs::PermissionsExt as _, process::Command};

use ratelimit_tests::{Daemon, Folder, Ratelimit, Sandbox, wait_until};

use crate::PINS;

/// Commands that open an instance in different ways.
const COMMANDS: [&str; 6] =
    ["attach eth0", "status", "limit set default --packets 5/s", "detach eth0", "detach --all", "upgrade"];

/// Runs shell words in the victim's namespace.
fn run(sandbox: &Sandbox, words: &str) {
    let output = sandbox.output(Command::new("sh").args(["-c", words]));
    assert!(output.status.success(), "{words}: {output:?}");
}

/// Runs shell words as a user without any rights.
fn run_as_nobody(sandbox: &Sandbox, words: &str) {
    let nobody = ["--reuid", "65534", "--regid", "65534", "--clear-groups", "sh", "-c", words];
    let output = sandbox.output(Command::new("setpriv").args(nobody));
    assert!(output.status.success(), "{words}: {output:?}");
}

fn mode(sandbox: &Sandbox, path: &str) -> u32 {
    sandbox.victim(|| fs::metadata(path).unwrap().permissions().mode() & 0o777)
}

/// Asserts that every command refuses what is at a path.
fn assert_refused(ratelimit: &Ratelimit<'_>, expected: &str) {
    for words in COMMANDS {
        assert_eq!(ratelimit.fails(words), format!("ratelimit: {expected}"), "{words}");
    }
}

fn foreign(path: &str) -> String {
    format!(
        "{path} belongs to user 65534, who could change the limits: remove it, or give it to root with `chown -h root {path}`"
    )
}

fn writable(path: &str) -> String {
    format!("other users can write to {path}, and so change the limits: prevent that with `chmod go-w {path}`")
}

/// Replaces the sandbox's BPF file system.
fn mount(sandbox: &Sandbox, options: &str) {
    run(sandbox, &format!("umount /sys/fs/bpf && mount -t bpf {options} bpf /sys/fs/bpf"));
}

#[test]
fn a_missing_file_system_is_mounted_for_root_only() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let modes = format!("> /dev/null && stat -c %a /sys/fs/bpf {PINS}");
    let output = ratelimit.output(&mut ratelimit.in_container("attach eth0", &modes));
    assert_eq!((output.status, output.stdout.as_str()), (0, "1700\n700\n"), "{output:?}");
    // The kernel detaches the program from a work queue after the mount's end.
    wait_until("the program is gone with its mount", || !sandbox.ip("link show eth0").contains("xdp"));
}

#[test]
fn file_systems_that_others_have_mounted_work() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    // systemd mounts it with the first mode, and earlier versions without one.
    for (options, expected) in [("-o mode=0700", 0o700), ("", 0o777), ("-o mode=0755", 0o755)] {
        mount(&sandbox, options);
        ratelimit.ok("attach eth0");
        assert_eq!(mode(&sandbox, "/sys/fs/bpf"), expected);
        for words in COMMANDS {
            ratelimit.ok(words);
        }
    }
}

#[test]
fn a_folder_that_another_user_made_first_is_refused() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    run_as_nobody(&sandbox, &format!("mkdir -m 0777 {PINS}"));
    assert_refused(&ratelimit, &foreign(PINS));
    // This command takes no lock.
    assert_eq!(ratelimit.fails("events"), format!("ratelimit: {}", foreign(PINS)));
    assert!(ratelimit.run("doctor").stdout.contains(&foreign(PINS)));
    run(&sandbox, &format!("chown -h root {PINS}"));
    assert_refused(&ratelimit, &writable(PINS));
    run(&sandbox, &format!("chmod go-w {PINS}"));
    ratelimit.ok("attach eth0");
    ratelimit.ok("detach --all");
}

#[test]
fn a_link_that_another_user_made_is_refused_wherever_it_leads() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let other = "/sys/fs/bpf/other";
    ratelimit.ok(&format!("attach eth0 --pins {other}"));
    run_as_nobody(&sandbox, &format!("ln -s {other} {PINS}"));
    assert_refused(&ratelimit, &foreign(PINS));
    // One of root's own leads to the instance.
    run(&sandbox, &format!("rm {PINS} && ln -s {other} {PINS}"));
    ratelimit.ok("status");
    run(&sandbox, &format!("rm {PINS}"));
    ratelimit.ok(&format!("detach --all --pins {other}"));
}

#[test]
fn folders_and_pins_in_the_instance_are_checked() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    // A sticky folder still lets others add what commands look for.
    for mode in ["0777", "1777", "0770"] {
        run(&sandbox, &format!("chmod {mode} {PINS}"));
        assert_refused(&ratelimit, &writable(PINS));
    }
    run(&sandbox, &format!("chmod 0700 {PINS}"));
    for mode in ["0777", "1777"] {
        run(&sandbox, &format!("chmod {mode} {PINS}/links"));
        for words in ["attach eth0", "status", "detach eth0", "detach --all"] {
            assert_eq!(ratelimit.fails(words), format!("ratelimit: {}", writable(&format!("{PINS}/links"))), "{words}");
        }
    }
    run(&sandbox, &format!("chmod 0700 {PINS}/links"));
    let link = sandbox.pins().into_iter().find(|pin| pin.to_string_lossy().contains("/links/eth0@")).unwrap();
    for path in [format!("{PINS}/CONTROL"), format!("{PINS}/program"), link.display().to_string()] {
        run(&sandbox, &format!("chown 65534 {path}"));
        assert_eq!(ratelimit.fails("attach eth0"), format!("ratelimit: {}", foreign(&path)));
        run(&sandbox, &format!("chown 0 {path}"));
    }
    ratelimit.ok("detach --all");
}

#[test]
fn folders_above_the_pins_are_checked() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let (place, above) = ("/run/place/bpf", "/run/place");
    run(&sandbox, &format!("mkdir -p {place} && mount -t bpf -o mode=0700 bpf {place}"));
    let pins = format!("--pins {place}/mine");
    let refused = |expected: &str| {
        for words in ["attach eth0", "status", "limit list"] {
            assert_eq!(ratelimit.fails(&format!("{words} {pins}")), format!("ratelimit: {expected}"), "{words}");
        }
    };
    for mode in ["0777", "0775"] {
        run(&sandbox, &format!("chmod {mode} {above}"));
        refused(&writable(above));
    }
    run(&sandbox, &format!("chmod 0755 {above} && chown 65534 {above}"));
    refused(&foreign(above));
    // In a sticky folder, other users cannot replace what is not theirs.
    run(&sandbox, &format!("chown 0 {above} && chmod 1777 {above}"));
    ratelimit.ok(&format!("attach eth0 {pins}"));
    // A way through a folder of another user leads to the same instance, until that user changes it.
    run(&sandbox, "mkdir /run/theirs && chown 65534 /run/theirs && ln -s /run/place/bpf /run/theirs/bpf");
    let line = ratelimit.fails("status --pins /run/theirs/bpf/mine");
    assert_eq!(line, format!("ratelimit: {}", foreign("/run/theirs")));
    run(&sandbox, "mkdir /run/ours && ln -s ../theirs/../place /run/ours/there");
    let line = ratelimit.fails("status --pins /run/ours/there/bpf/mine");
    assert_eq!(line, format!("ratelimit: {}", foreign("/run/theirs")));
    run(&sandbox, "rm /run/ours/there && ln -s ../place /run/ours/there");
    ratelimit.ok("status --pins /run/ours/there/bpf/mine");
    ratelimit.ok("status --pins /run/ours/../place/bpf/mine/links/..");
    ratelimit.ok(&format!("detach --all {pins}"));
}

#[test]
fn the_folder_of_the_socket_is_checked_and_only_root_can_lock_it() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    folder.write("interfaces = [\"eth0\"]\n");
    let file = folder.file().display().to_string();
    run(&sandbox, "mkdir -m 0770 /run/ratelimit && chgrp 65534 /run/ratelimit");
    for words in [format!("run -c {file}"), "attach eth0 --confirm 1d".to_owned()] {
        run(&sandbox, "rm -rf /run/ratelimit.confirm && mkdir -m 0770 /run/ratelimit.confirm");
        let line = ratelimit.fails(&words);
        let place = if words.starts_with("run") { "/run/ratelimit" } else { "/run/ratelimit.confirm" };
        assert_eq!(line, format!("ratelimit: {}", writable(place)));
    }
    run(&sandbox, "chmod 0750 /run/ratelimit && chown 65534 /run/ratelimit");
    assert_eq!(ratelimit.fails(&format!("run -c {file}")), format!("ratelimit: {}", foreign("/run/ratelimit")));
    assert!(sandbox.pins().is_empty());

    // An earlier version left the file of the lock open to the group.
    run(
        &sandbox,
        "chown 0 /run/ratelimit && touch /run/ratelimit/socket.lock && chmod 0644 /run/ratelimit/socket.lock",
    );
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    assert_eq!(mode(&sandbox, "/run/ratelimit/socket.lock"), 0o600);
    daemon.end();
    ratelimit.ok("detach --all");
}
