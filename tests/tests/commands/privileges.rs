//! Privileges: capabilities, users, groups, and containers.

use std::{fs, process::Command};

use ratelimit_tests::{Daemon, Flood, Folder, Frame, PEER_IPV4, Ratelimit, Sandbox};

use super::{
    reload::ssh::{denying, log_in},
    run::{FILE, limits},
};

/// The capabilities that the program needs.
pub(super) const CAPABILITIES: &str = "bpf,net_admin,perfmon";

/// Returns a command that runs `ratelimit WORDS` under `setpriv` with these options.
pub(super) fn with(ratelimit: &Ratelimit<'_>, setpriv: &str, words: &str) -> Command {
    let ratelimit = ratelimit.command(words);
    let mut command = Command::new("setpriv");
    command.args(setpriv.split_whitespace()).arg(ratelimit.get_program()).args(ratelimit.get_args());
    command.env_remove("SSH_CONNECTION");
    command
}

/// Returns `setpriv` options that limit all capability sets.
pub(super) fn bounded(to: &str) -> String {
    format!("--bounding-set -all,+{} --inh-caps -all --no-new-privs", to.replace(',', ",+"))
}

/// Returns the standard error of a command that fails.
fn refused(ratelimit: &Ratelimit<'_>, command: &mut Command) -> String {
    let output = ratelimit.output(command);
    assert_eq!((output.status, output.stdout.as_str()), (2, ""), "{output:?}");
    output.stderr
}

#[test]
fn three_capabilities_suffice_and_a_missing_one_is_named() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    for words in [
        "attach eth0 --packets 5/s --capacity 9k/s --unknown 5k/s",
        "limit set 10.0.0.0/24 --packets 7/m --algorithm sliding-log --over-limit reject",
        "limit set default --service udp/53 --packets 9/s --throttle elastic",
        "status --verbose",
        "sources",
        "detach eth0",
        "detach --all",
    ] {
        let output = ratelimit.output(&mut with(&ratelimit, &bounded(CAPABILITIES), words));
        assert_eq!((output.status, output.stderr.as_str()), (0, ""), "{words}");
    }
    for missing in ["bpf", "net_admin", "perfmon"] {
        let others: Vec<&str> = CAPABILITIES.split(',').filter(|one| *one != missing).collect();
        let line = refused(&ratelimit, &mut with(&ratelimit, &bounded(&others.join(",")), "attach eth0"));
        let expected = "run as root, or give the process CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON";
        assert_eq!(line, format!("ratelimit: missing privilege CAP_{}: {expected}\n", missing.to_uppercase()));
    }
}

#[test]
fn upgrading_another_version_requires_root() {
    let sandbox = Sandbox::new();
    let (this, other) = (Ratelimit::new(&sandbox), Ratelimit::other(&sandbox));
    let nothing = "nothing to do: there is no instance of another version\n";
    assert_eq!(this.ok("upgrade"), nothing);
    assert!(sandbox.pins().is_empty());
    other.ok("attach eth0 --packets 10/d");
    Flood::of(Frame::udp(PEER_IPV4, 9)).send(&sandbox, 100);
    let expected = "ratelimit: the maps are of another version, and reading them needs CAP_SYS_ADMIN: run `ratelimit upgrade` as root\n";
    assert_eq!(refused(&this, &mut with(&this, &bounded(CAPABILITIES), "upgrade")), expected);
    assert!(this.fails("attach eth0").contains("is of another version (layout "));
    assert_eq!(other.json("status")["dropped"]["packets"], 90);
    let all = bounded(&format!("{CAPABILITIES},sys_admin"));
    let output = this.output(&mut with(&this, &all, "upgrade"));
    let expected = "this version is in force now: rules, buckets and counters are kept\n";
    assert_eq!((output.status, output.stdout.as_str(), output.stderr.as_str()), (0, expected, ""));
    assert_eq!(
        (this.json("status")["dropped"]["packets"].clone(), limits(&this)[0].as_str()),
        (90.into(), "default any 10/d command")
    );
    // Afterwards the three capabilities suffice again.
    for words in ["upgrade", "attach eth0"] {
        let output = this.output(&mut with(&this, &bounded(CAPABILITIES), words));
        assert_eq!((output.status, output.stderr.as_str()), (0, ""), "{words}");
    }
    assert_eq!(this.json("upgrade")["upgraded"], false);
    Flood::of(Frame::udp(PEER_IPV4, 9)).send(&sandbox, 100);
    assert_eq!(this.json("status")["dropped"]["packets"], 190);
    this.ok("detach --all");
}

/// Returns a group of this machine other than root's, and its number.
fn a_group() -> (String, String) {
    let groups = fs::read_to_string("/etc/group").unwrap();
    let fields = |line: &str| line.split(':').map(str::to_owned).collect::<Vec<_>>();
    let group = groups.lines().map(fields).find(|fields| fields[2] != "0").unwrap();
    (group[0].clone(), group[2].clone())
}

#[test]
fn only_root_and_the_group_of_the_daemon_may_reload() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    folder.write(FILE);
    let run = format!("run -c {}", folder.file().display());
    // The service manager starts the daemon with its own group.
    let (name, group) = a_group();
    let mut daemon = Daemon::by(&sandbox, with(&ratelimit, &format!("--regid {group} --clear-groups"), &run));
    daemon.line();
    let as_user = |group: &str| format!("--reuid 65534 --regid {group} --clear-groups");
    let output = ratelimit.output(&mut with(&ratelimit, &as_user(&group), "reload"));
    assert_eq!((output.status, output.stderr.as_str()), (0, ""));
    daemon.line();
    let line = refused(&ratelimit, &mut with(&ratelimit, &as_user("65534"), "reload"));
    assert_eq!(line, format!("ratelimit: this daemon answers only to root and the group {name}: try with sudo\n"));
    // The pins belong to root, whatever the capabilities.
    let caps = format!("--inh-caps +{0} --ambient-caps +{0}", CAPABILITIES.replace(',', ",+"));
    let line = refused(&ratelimit, &mut with(&ratelimit, &format!("{} {caps}", as_user(&group)), "limit list"));
    let pins = "/sys/fs/bpf/ratelimit";
    assert_eq!(line, format!("ratelimit: {pins}: permission denied: only root can read the pins: run as root\n"));
    daemon.end();

    let mut daemon = Daemon::by(&sandbox, ratelimit.command(&run));
    daemon.line();
    let line = refused(&ratelimit, &mut with(&ratelimit, &as_user(&group), "reload"));
    assert_eq!(line, "ratelimit: this daemon answers only to root: try with sudo\n");
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn only_root_may_force_a_reload() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    let open = "interfaces = [\"eth0\"]\n";
    folder.write(open);
    let (_, group) = a_group();
    let run = format!("run -c {}", folder.file().display());
    let mut daemon = Daemon::by(&sandbox, with(&ratelimit, &format!("--regid {group} --clear-groups"), &run));
    daemon.line();
    log_in(&sandbox, "1", "10.9.0.5", "active");
    folder.write(&denying("10.9.0.5"));
    let guarded = "an SSH session comes from 10.9.0.5";
    assert!(daemon.line().contains(guarded));

    // Another user, who has the group of the socket as a supplementary one, asks for a plain and for a forced reload.
    let member = format!("--reuid 65534 --regid 65534 --groups {group}");
    let line = refused(&ratelimit, &mut with(&ratelimit, &member, "reload"));
    assert!(line.contains(guarded), "{line}");
    assert!(daemon.line().contains(guarded));
    let line = refused(&ratelimit, &mut with(&ratelimit, &member, "reload --force"));
    let expected = "ratelimit: nothing was changed: only root may reload with --force: run `sudo ratelimit reload --force`, or reload without --force\n";
    assert_eq!(line, expected);
    assert_eq!(daemon.line(), "ratelimit: user 65534 may not reload with --force: nothing was changed");
    assert_eq!(ratelimit.json("deny list"), serde_json::json!([]));

    // A plain reload of that user works, and so does a forced one of root.
    folder.write(open);
    daemon.line();
    // It allows no address, because an allow outranks every limit.
    let mut reload = with(&ratelimit, &member, "reload");
    let output = ratelimit.output(reload.env("SSH_CONNECTION", "10.9.0.66 50000 10.9.0.1 22"));
    assert_eq!((output.status, output.stderr.as_str()), (0, ""));
    assert_eq!(ratelimit.json("allow list").as_array().unwrap().len(), 0);
    daemon.line();
    folder.write(&denying("10.9.0.5"));
    assert!(daemon.line().contains(guarded));
    ratelimit.ok("reload --force");
    daemon.line();
    assert_eq!(ratelimit.json("deny list")[0]["source"], "10.9.0.5");
    daemon.end();
    ratelimit.ok("detach --all");
}

/// Returns the command in a separate mount namespace, like a container: it can write only to what this script mounts.
fn contained(ratelimit: &Ratelimit<'_>, mounts: &str, words: &str) -> Command {
    let inner = with(ratelimit, &bounded(CAPABILITIES), words);
    let mut command = Command::new("unshare");
    let script = format!("mount -o remount,bind,ro / && mount -o remount,bind,ro /sys && {mounts} && exec \"$@\"");
    command.args(["--mount", "sh", "-c", &script, "sh"]).arg(inner.get_program()).args(inner.get_args());
    command.env_remove("SSH_CONNECTION");
    command
}

#[test]
fn a_container_needs_the_pins_and_run_folder_of_the_host_and_three_capabilities() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    folder.write(FILE);
    let run = format!("run -c {}", folder.file().display());
    sandbox.victim(|| fs::create_dir("/run/ratelimit").unwrap());
    // The socket's folder is the host's. The rest of /run is not.
    let shared = "mount --bind /run/ratelimit /mnt && mount -t tmpfs tmpfs /run && mkdir /run/ratelimit && mount --move /mnt /run/ratelimit";
    let mut daemon = Daemon::by(&sandbox, contained(&ratelimit, shared, &run));
    assert!(daemon.line().ends_with("attached to eth0"));
    // Commands on the host see the instance and reach the daemon.
    assert_eq!(limits(&ratelimit).len(), 2);
    folder.write(&FILE.replace("1000/s", "10/d"));
    daemon.line();
    ratelimit.ok("reload");
    daemon.line();

    // A second daemon is refused although it shares only the pins.
    let second = format!("run -c {}", folder.file().display());
    let line = refused(&ratelimit, &mut contained(&ratelimit, "mount -t tmpfs tmpfs /run", &second));
    let first = "ratelimit: another daemon keeps a file in force in /sys/fs/bpf/ratelimit: end process ";
    let last = ") first, limits stay in force meanwhile\n";
    assert!(line.starts_with(first) && line.ends_with(last) && line.contains(" run -c "), "{line}");
    // Without its mounts, the error names them.
    let line = refused(&ratelimit, &mut contained(&ratelimit, "mount -t tmpfs -o ro tmpfs /run", &second));
    assert_eq!(
        line,
        "ratelimit: /run/ratelimit: Read-only file system (os error 30): the daemon needs this folder for its socket, so make /run writable for it, for example with a tmpfs\n"
    );
    let line = refused(
        &ratelimit,
        &mut contained(&ratelimit, "mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs /sys/fs/bpf", &second),
    );
    let usual = "mount -t bpf -o mode=0700 bpf /sys/fs/bpf";
    assert!(line.contains("is not on a BPF file system") && line.contains(usual), "{line}");

    // The daemon ends, and the limits stay.
    daemon.end();
    Flood::of(Frame::udp(PEER_IPV4, 9)).send(&sandbox, 100);
    assert_eq!(ratelimit.json("status")["dropped"]["packets"], 90);
    ratelimit.ok("detach --all");
}
