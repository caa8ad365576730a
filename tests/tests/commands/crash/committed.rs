//! A change of settings that was killed after its commit: when every link carries the new program. The next command
//! only goes on.

use ratelimit_tests::{Call, Fault, Ratelimit, Sandbox, traced};

/// System calls that change pins or links.
const CALLS: [&str; 5] = ["bpf", "rename", "unlink", "rmdir", "mkdir"];

#[test]
fn a_committed_change_is_finished_without_another_change_of_a_link() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    sandbox.ip("link add eth1 type veth peer name far1");
    ratelimit.ok("attach eth0 eth1 --packets 1000/s --sample off");
    let set = |sample: bool, fault| {
        let words = format!("set --sample {}", if sample { "on" } else { "off" });
        traced(&sandbox, &ratelimit.command(&words), "", &CALLS, fault)
    };
    let calls = set(true, None).calls;
    let is_commit = |call: &Call| call.name == "mkdir" && call.text.contains("next/committed");
    let commit = calls.iter().position(is_commit).unwrap();
    assert!(calls[..commit].iter().any(|call| call.text.contains("BPF_LINK_UPDATE")));
    let last = calls.iter().rposition(|call| call.name == "rename").unwrap();
    let rest = &calls[commit + 1..=last];
    assert!(rest.iter().any(|call| call.text.contains("BPF_MAP_UPDATE_ELEM")), "{rest:?}");
    for (sample, call) in [false, true].into_iter().cycle().zip(rest) {
        set(sample, Some((call.name, call.number, Fault::Signal("KILL"))));
        let next = traced(&sandbox, &ratelimit.command("deny list"), "", &CALLS, None);
        assert!(next.output.status.success(), "{next:?}");
        let updates: Vec<_> = next.calls.iter().filter(|call| call.text.contains("BPF_LINK_UPDATE")).collect();
        assert!(updates.is_empty(), "{updates:?}");
        assert_eq!(ratelimit.json("status")["sample"], sample);
    }
    ratelimit.ok("detach --all");
}
