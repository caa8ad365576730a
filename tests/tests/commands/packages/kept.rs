//! What upgrades and removals of the package leave as it is.

use std::{collections::BTreeSet, process::Command, thread};

use ratelimit_tests::{Sandbox, VICTIM_LINK};

use super::{NEXT_PACKAGE, PACKAGE, ROOT, Root};

/// Returns a root with the package, whose command has attached to an interface.
fn attached(sandbox: &Sandbox) -> Root<'_> {
    let root = Root::new(sandbox);
    root.ok(&format!("dpkg --install {PACKAGE}"));
    root.ok(&format!("ratelimit attach {VICTIM_LINK}"));
    root
}

#[test]
#[ignore = "needs the packages, and `cargo xtask dist --check` builds them"]
fn instances_with_a_daemon_and_pins_of_other_tools_stay_as_they_are() {
    let sandbox = Sandbox::new();
    let root = attached(&sandbox);
    let (held, foreign) = ("/sys/fs/bpf/held", "/sys/fs/bpf/foreign");
    root.ok(&format!("mkdir {foreign}"));
    // Maps of another tool, under names of ratelimit's pins.
    for name in ["CONTROL", "EVENTS", "program"] {
        root.ok(&format!("ln /sys/fs/bpf/ratelimit/EVENTS {foreign}/{name}"));
    }
    root.write("etc/held.toml", "interfaces = [\"lo\"]\n[interface.lo]\nmode = \"generic\"\n");
    let mut command = Command::new("chroot");
    command.args([ROOT, "/usr/sbin/ratelimit", "--pins", held, "run", "--config", "/etc/held.toml"]);
    let mut daemon = sandbox.start(command);
    while !root.output(&format!("ratelimit --pins {held} reload")).status.success() {
        assert!(daemon.child.try_wait().unwrap().is_none(), "the daemon has ended");
        thread::yield_now();
    }

    let text = root.ok(&format!("dpkg --install {NEXT_PACKAGE}"));
    assert!(text.contains("the daemon of /sys/fs/bpf/held keeps its version"), "{text}");
    root.ok(&format!("ratelimit --pins {held} reload"));

    let text = root.ok("dpkg --remove ratelimit");
    assert!(text.contains("a daemon keeps the limits of /sys/fs/bpf/held"), "{text}");
    assert!(!text.contains(foreign), "{text}");
    let left: BTreeSet<_> = root.ok("find /sys/fs/bpf -mindepth 1 -maxdepth 2").lines().map(str::to_owned).collect();
    assert_eq!(left.iter().filter(|pin| pin.starts_with(&format!("{foreign}/"))).count(), 3, "{left:?}");
    for pin in ["held/CONTROL", "held/program"] {
        assert!(left.contains(&format!("/sys/fs/bpf/{pin}")), "{pin}: {left:?}");
    }
    assert!(!left.contains("/sys/fs/bpf/ratelimit"), "{left:?}");
    sandbox.leave_pins();
}

#[test]
#[ignore = "needs the packages, and `cargo xtask dist --check` builds them"]
fn a_package_is_removed_although_limits_cannot_be() {
    let sandbox = Sandbox::new();
    let root = attached(&sandbox);
    // Another command has the lock for longer than commands wait.
    let mut command = Command::new("flock");
    command.args(["/sys/fs/bpf/ratelimit", "sleep", "60"]);
    let _command = sandbox.start(command);
    while root.output("flock --nonblock /sys/fs/bpf/ratelimit true").status.success() {
        thread::yield_now();
    }
    let text = root.ok("dpkg --remove ratelimit");
    assert!(text.contains("/sys/fs/bpf/ratelimit stays. If it is an instance of ratelimit, its limits stay"), "{text}");
    assert!(root.ok("dpkg-query --show --showformat=${Status} ratelimit").contains("deinstall ok config-files"));
    sandbox.leave_pins();
}
