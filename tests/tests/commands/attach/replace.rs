//! `--replace`: ratelimit takes the place of another tool's program.

use std::{fs, os::unix::fs::MetadataExt as _};

use ratelimit_tests::{Fault, Ratelimit, Sandbox, Sink, VICTIM_LINK, traced};

use super::program_id;
use crate::{
    PINS,
    privileges::{CAPABILITIES, bounded, with},
};

/// System calls around the removal of a program by netlink.
const CALLS: [&str; 3] = ["sendto", "recvfrom", "unlink"];

#[test]
fn replace_exchanges_another_program_and_restores_it_on_failure() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    // Attached by a link, as libbpf and aya do.
    let sink = Sink::passing(&sandbox, VICTIM_LINK);
    let text = ratelimit.ok("attach eth0 --replace");
    assert!(text.starts_with("eth0: ratelimit has taken the place of the XDP program \""), "{text}");
    assert_ne!(program_id(&ratelimit), sink.program_id());
    ratelimit.ok("detach --all");
    drop(sink);

    // Attached by netlink, as iproute2 does. The failure comes from an interface without native XDP.
    let mut sink = Sink::passing(&sandbox, VICTIM_LINK);
    let id = sink.program_id();
    sandbox.victim(|| sink.pin_program("/sys/fs/bpf/pass"));
    drop(sink);
    sandbox.ip("link set dev eth0 xdpdrv pinned /sys/fs/bpf/pass");
    // From here on only the interface holds the program.
    sandbox.victim(|| std::fs::remove_file("/sys/fs/bpf/pass").unwrap());
    ratelimit.fails("attach eth0 lo --replace");
    let link = sandbox.ip("link show eth0");
    assert!(link.contains(&format!("prog/xdp id {id} ")), "{link}");
    assert!(ratelimit.fails("status").contains("not attached"));
    ratelimit.ok("attach eth0 --replace");
    assert_ne!(program_id(&ratelimit), id);
    ratelimit.ok("detach --all");

    // Attached by a link. Its owner finds it detached, and passed and dropped counters remain.
    let sink = Sink::passing(&sandbox, VICTIM_LINK);
    ratelimit.fails("attach eth0 lo --replace");
    assert!(sandbox.ip("link show eth0").contains(&format!("prog/xdp id {} ", sink.program_id())));
    sandbox.ip("link set dev eth0 xdpdrv off");
}

/// Attaches the passing program by netlink. Only the interface holds it. Returns its id.
fn attach_by_netlink(sandbox: &Sandbox) -> u32 {
    let mut sink = Sink::passing(sandbox, VICTIM_LINK);
    let id = sink.program_id();
    sandbox.victim(|| sink.pin_program("/sys/fs/bpf/pass"));
    drop(sink);
    sandbox.ip("link set dev eth0 xdpdrv pinned /sys/fs/bpf/pass");
    sandbox.victim(|| fs::remove_file("/sys/fs/bpf/pass").unwrap());
    id
}

/// Asserts that the interface has ratelimit's program with a pin, or else this one, and that no other pin is left.
fn assert_tidy(sandbox: &Sandbox, ratelimit: &Ratelimit<'_>, foreign: u32, step: &str) {
    // This command only reads, but it opens the instance.
    let ours = ratelimit.json("status")["interfaces"][0]["program_id"].as_u64();
    let expected = ours.unwrap_or(u64::from(foreign));
    let link = sandbox.ip("link show eth0");
    assert!(link.contains(&format!("prog/xdp id {expected} ")), "{step}: {link}");
    assert!(!sandbox.pins().iter().any(|pin| pin.to_string_lossy().contains("replaced-")), "{step}");
}

#[test]
fn an_instance_controls_its_program_that_returned_without_a_link() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let other = |words: &str| ratelimit.ok(&format!("--pins /sys/fs/bpf/other {words}"));
    other("attach eth0 --packets 3/s");
    let program = || sandbox.ip("link show eth0").contains("prog/xdp");
    let attached = |pins: &str| ratelimit.json(&format!("--pins {pins} status"))["interfaces"][0]["mode"] == "native";
    // The failure comes from an interface without native XDP.
    ratelimit.fails("attach eth0 lo --replace");
    assert!(program() && !attached("/sys/fs/bpf/other"));
    other("attach eth0");
    assert!(attached("/sys/fs/bpf/other"));
    ratelimit.fails("attach eth0 lo --replace");
    // Its own program is pinned, so this needs no more capabilities than usual.
    let detach = "--pins /sys/fs/bpf/other detach eth0";
    let output = ratelimit.output(&mut with(&ratelimit, &bounded(CAPABILITIES), detach));
    assert_eq!((output.status, output.stderr.as_str()), (0, ""), "{output:?}");
    assert!(!program());
    other("attach eth0");
    ratelimit.fails("attach eth0 lo --replace");
    assert!(other("detach --all").starts_with("detached from eth0;"));
    assert!(!program());
}

#[test]
#[ignore = "slow: cargo xtask crash"]
fn a_killed_replacement_leaves_one_of_both_programs_and_the_next_command_tidies_up() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    // Calls of bpf have no fixed numbers, because the command looks at programs of other tests too.
    let attach = |fault| traced(&sandbox, &ratelimit.command("attach eth0 --replace"), "", &CALLS, fault);
    attach_by_netlink(&sandbox);
    let whole = attach(None);
    assert!(whole.output.status.success(), "{whole:?}");
    ratelimit.ok("detach --all");
    // The program is removed by the one request, and the kernel has done so when it answers.
    let removal = whole.calls.iter().position(|call| call.text.contains("RTM_SETLINK")).unwrap();
    let steps = &whole.calls[removal..];
    assert!(steps.len() >= 3 && steps.iter().any(|call| call.text.contains("replaced-")), "{steps:?}");
    for step in steps {
        let foreign = attach_by_netlink(&sandbox);
        attach(Some((step.name, step.number, Fault::Signal("KILL"))));
        assert_tidy(&sandbox, &ratelimit, foreign, &step.text);
        // What was not replaced can still be.
        ratelimit.ok("attach eth0 --replace");
        assert_ne!(program_id(&ratelimit), foreign);
        ratelimit.ok("detach --all");
    }
}

#[test]
fn a_program_on_a_link_returns_if_its_replacement_was_killed() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach lo --mode generic");
    let index = sandbox.ip("link show eth0").split(':').next().unwrap().to_owned();
    let namespace = sandbox.victim(|| fs::metadata("/proc/thread-self/ns/net").unwrap().ino());
    let is_restored = |namespace: u64| {
        // As after a kill between the removal of the program and the new link.
        let mut sink = Sink::passing(&sandbox, VICTIM_LINK);
        let (id, kept) = (sink.program_id(), format!("{PINS}/replaced-native-{index}-{namespace}"));
        sandbox.victim(|| sink.pin_program(&kept));
        drop(sink);
        assert!(!sandbox.ip("link show eth0").contains("xdp"));
        ratelimit.ok("status");
        let is_restored = sandbox.ip("link show eth0").contains(&format!("prog/xdp id {id} "));
        assert_eq!(sandbox.victim(|| fs::exists(&kept).unwrap()), !is_restored);
        is_restored
    };
    assert!(is_restored(namespace));
    sandbox.ip("link set dev eth0 xdpdrv off");
    // The index of another namespace is another interface.
    assert!(!is_restored(namespace + 1));
    sandbox.victim(|| fs::remove_file(format!("{PINS}/replaced-native-{index}-{}", namespace + 1)).unwrap());
    ratelimit.ok("detach --all");
}
