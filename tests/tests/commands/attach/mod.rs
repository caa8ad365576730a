//! `attach`: programs on interfaces. Options of the default limit are in `limit`.

mod layers;
mod log_level;
mod netns;
mod other_tools;
mod replace;
mod settings;
mod shadow;
mod shared;
mod signals;
mod ssh;

use std::thread;

use ratelimit_tests::{Call, Fault, Flood, Frame, Ratelimit, Sandbox, traced};
use serde_json::json;

pub(crate) fn program_id(ratelimit: &Ratelimit<'_>) -> u32 {
    ratelimit.json("status")["interfaces"][0]["program_id"].as_u64().unwrap() as u32
}

#[test]
fn attach_without_a_rate_observes_and_prints_that() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let text = ratelimit.ok("attach eth0");
    assert!(text.starts_with("eth0: attached, native\ndefault: no limit (to set one: "), "{text}");
    // The hint about unknown sources appears once, if the option is missing.
    let hint = "unknown sources: not limited (against floods from forged addresses: `ratelimit set --unknown auto`)\n";
    assert!(text.ends_with(hint) && !ratelimit.ok("attach eth0").contains("unknown"), "{text}");
    Flood::of(Frame::udp([10, 9, 0, 66], 9)).send(&sandbox, 50_000);
    let status = ratelimit.json("status");
    assert_eq!(status["dropped"], json!({"packets": 0, "bytes": 0}));
    assert_eq!(status["reasons"]["within-limit"], json!({"packets": 50_000, "bytes": 3_000_000}));
    ratelimit.ok("detach --all");
}

#[test]
fn a_refused_attach_gives_the_reason_of_the_kernel_and_leaves_no_program() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    // A veth needs as many receive queues as the other end has transmit queues (drivers/net/veth.c).
    sandbox.ip(
        "link add big0 mtu 9000 numrxqueues 1 numtxqueues 2 type veth peer name far0 mtu 9000 numrxqueues 2 numtxqueues 2",
    );
    let why = "XDP expects number of rx queues not less than peer tx queues: attach with --mode generic, or, if the reason is the MTU of 9000, lower it with `ip link set big0 mtu 1500`";
    for mode in ["", " --mode auto"] {
        let line = ratelimit.fails(&format!("attach big0{mode}"));
        assert!(line.starts_with("ratelimit: big0: the kernel refused to attach: ") && line.ends_with(why), "{line}");
        assert!(!sandbox.ip("link show big0").contains("xdp"));
    }
    ratelimit.ok("attach big0 --mode generic");
    ratelimit.ok("detach --all");
}

/// It stays generic because it was, not because of its driver.
#[test]
fn an_attach_that_finds_generic_mode_names_the_commands_for_native_mode() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    assert!(ratelimit.ok("attach eth0 --mode generic").starts_with("eth0: attached, generic\n"));
    let text = ratelimit.ok("attach eth0 --packets 5000/s --mode auto");
    let (detach, attach) = ("ratelimit detach eth0", "ratelimit attach eth0 --mode auto");
    let expected = format!("eth0: attached, generic, as before (to try native mode: `{detach}`, then `{attach}`)\n");
    assert!(text.starts_with(&expected), "{text}");
    for command in [detach, attach] {
        ratelimit.ok(command.strip_prefix("ratelimit ").unwrap());
    }
    assert_eq!(ratelimit.json("status")["interfaces"][0]["mode"], "native");
    assert!(ratelimit.ok("limit list").contains("5000/s"));
    ratelimit.ok("detach --all");
}

/// A kernel that refuses links attaches by netlink. Nothing would track such a program.
#[test]
fn a_refused_link_leaves_no_program_that_nothing_tracks() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    sandbox.ip("link add eth1 type veth peer name far1");
    ratelimit.ok("attach eth0 eth1");
    let attach = |fault| {
        ratelimit.ok("detach eth1");
        traced(&sandbox, &ratelimit.command("attach eth1"), "", &["bpf"], fault)
    };
    let is_link = |call: &&Call| call.text.contains("BPF_LINK_CREATE") && call.text.contains("attach_type=BPF_XDP");
    let number = attach(None).calls.iter().find(is_link).unwrap().number;
    let refused = attach(Some(("bpf", number, Fault::Error("EINVAL"))));
    let call = refused.calls.iter().find(is_link).unwrap();
    assert!(call.text.contains("(INJECTED)"), "{call:?}");
    assert_eq!(refused.output.status.code(), Some(2));
    assert!(!sandbox.ip("link show eth1").contains("xdp"));
    assert_eq!(ratelimit.json("status")["interfaces"].as_array().unwrap().len(), 1);
    ratelimit.ok("detach --all");
}

#[test]
fn the_next_attach_completes_one_that_was_killed() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    ratelimit.ok("detach eth0");
    // The program is pinned last, so these pins exist before it.
    sandbox.victim(|| std::fs::remove_file("/sys/fs/bpf/ratelimit/program").unwrap());
    let line = ratelimit.fails("status");
    assert!(
        line.starts_with(
            "ratelimit: the pinned program is missing, as after an attach that was killed: run `ratelimit attach"
        ),
        "{line}"
    );
    assert!(ratelimit.ok("attach eth0 --packets 5/s").contains("default: 5/s per source, burst 5"));
    // An attached program keeps its rules, even without its pin.
    sandbox.victim(|| std::fs::remove_file("/sys/fs/bpf/ratelimit/program").unwrap());
    let pins = sandbox.pins();
    assert!(ratelimit.fails("attach eth0").contains("the pinned program is missing"));
    assert_eq!(sandbox.pins(), pins);
    assert!(sandbox.ip("link show eth0").contains("xdp"));
    ratelimit.ok("detach --all");
}

#[test]
fn attach_prints_which_rules_were_kept() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    assert_eq!(ratelimit.ok("deny add 10.1.1.1 --for 10m"), "10.1.1.1: deny, expires in 10m\n");
    assert_eq!(
        ratelimit.ok("limit set 10.1.1.1 --packets 5/s --for 2h"),
        "10.1.1.1: 5/s per source, burst 5, expires in 2h (replaced: deny)\n"
    );
    assert_eq!(ratelimit.json("allow add 10.1.1.1")["replaced"], "5/s");
    ratelimit.ok("detach eth0");
    let text = ratelimit.ok("attach eth0");
    assert!(
        text.ends_with("default: no limit\nrules in force: 1 (`ratelimit limit list`, `allow list`, `deny list`)\n"),
        "{text}"
    );
    ratelimit.ok("detach --all");
}

#[test]
fn attach_prints_changed_settings_of_a_running_instance() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --ipv6-prefix 56 --packets 5/s");
    let line = ratelimit.fails("attach eth0 --ipv6-prefix 48");
    assert!(line.contains("has IPv6 prefix 56, not 48"), "{line}");
    // Options that are not given keep their value.
    ratelimit.ok("attach eth0");
    assert_eq!(ratelimit.json("status")["ipv6_prefix"], 56);
    ratelimit.ok("detach --all");
    // Unknown sources need cells.
    ratelimit.ok("attach eth0 --front off");
    let line = ratelimit.fails("attach eth0 --unknown 1k/s");
    assert!(line.contains("has no cells, which --unknown needs"), "{line}");
    ratelimit.ok("attach eth0 --unknown off");
    ratelimit.ok("detach --all");
}

#[test]
fn interface_names_with_dots_work_and_deleted_interfaces_are_listed() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    sandbox.ip("link add wan1.100 type veth peer name far1");
    ratelimit.ok("attach wan1.100 eth0");
    let names = || {
        let status = ratelimit.json("status");
        let interfaces = status["interfaces"].as_array().unwrap().clone();
        interfaces
            .into_iter()
            .map(|row| (row["name"].as_str().unwrap().to_owned(), row["mode"].clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(names(), [("eth0".to_owned(), json!("native")), ("wan1.100".to_owned(), json!("native"))]);
    sandbox.ip("link del wan1.100");
    assert_eq!(names()[1], ("wan1.100".to_owned(), json!(null)));
    // A new interface can have the same name, and a deleted one can be detached.
    sandbox.ip("link add wan1.100 type veth peer name far1");
    ratelimit.ok("attach wan1.100");
    assert_eq!(names()[1], ("wan1.100".to_owned(), json!("native")));
    sandbox.ip("link del wan1.100");
    ratelimit.ok("detach wan1.100");
    assert_eq!(names().len(), 1);
    ratelimit.ok("detach --all");
}

/// Whoever has an interface, such as a container, can give it a name that controls the terminal of others.
#[test]
fn a_name_that_would_control_the_terminal_is_escaped() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    sandbox.ip("link add wan\x1b[2J type veth peer name far0");
    let shown = "wan\\u{1b}[2J";
    assert_eq!(
        ratelimit.fails("attach nope"),
        format!("ratelimit: no interface \"nope\": this network namespace has lo, eth0, far0, {shown}")
    );
    assert!(ratelimit.ok(&format!("attach {shown}")).starts_with(&format!("{shown}: attached, native\n")));
    assert_eq!(ratelimit.json("status")["interfaces"][0]["name"], shown);
    for words in ["status", "doctor", "save"] {
        let text = ratelimit.run(words).stdout;
        assert!(text.contains("wan") && !text.contains('\x1b'), "{words}: {text}");
    }
    assert_eq!(ratelimit.ok(&format!("detach {shown}")).lines().next(), Some(&*format!("detached from {shown}")));
    ratelimit.ok("detach --all");
}

#[test]
fn a_renamed_interface_is_shown_by_its_new_name() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    sandbox.ip("link add old0 type veth peer name far0");
    ratelimit.ok("attach old0");
    sandbox.ip("link set old0 name new0");
    assert_eq!(ratelimit.json("status")["interfaces"][0]["name"], "new0");
    // A new interface with the old name does not replace it.
    sandbox.ip("link add old0 type veth peer name far1");
    ratelimit.ok("attach old0");
    let status = ratelimit.json("status");
    let names: Vec<_> =
        status["interfaces"].as_array().unwrap().iter().map(|row| (&row["name"], &row["mode"])).collect();
    assert_eq!(names, [(&json!("new0"), &json!("native")), (&json!("old0"), &json!("native"))]);
    ratelimit.ok("detach old0");
    assert!(sandbox.ip("link show new0").contains("xdp") && !sandbox.ip("link show old0").contains("xdp"));
    ratelimit.ok("detach new0");
    ratelimit.ok("detach --all");
}

#[test]
fn concurrent_commands_wait_for_each_other() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    thread::scope(|scope| {
        for number in 0..8 {
            let ratelimit = &ratelimit;
            scope.spawn(move || {
                ratelimit.ok("attach eth0");
                ratelimit.ok(&format!("limit set 10.9.0.{number} --packets {}/s", number + 1));
            });
        }
    });
    assert_eq!(ratelimit.json("limit list").as_array().unwrap().len(), 8);
    ratelimit.ok("detach --all");
}
