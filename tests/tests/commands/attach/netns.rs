//! Network namespaces by name: `--netns`, and `ip netns exec`, whose mounts end with the command.

use std::process::Command;

use ratelimit_tests::{Ratelimit, Sandbox};

/// Creates a namespace with this name and a pair of links in it.
fn named(sandbox: &Sandbox, name: &str) {
    sandbox.ip(&format!("netns add {name}"));
    sandbox.ip(&format!("-n {name} link add inner0 type veth peer name inner1"));
}

/// Returns `ip netns exec NAME ratelimit WORDS`.
fn by_exec(ratelimit: &Ratelimit<'_>, name: &str, words: &str) -> Command {
    let inner = ratelimit.command(words);
    let mut command = Command::new("ip");
    command.args(["netns", "exec", name]).arg(inner.get_program()).args(inner.get_args()).env_remove("SSH_CONNECTION");
    command
}

#[test]
fn an_attach_that_would_end_with_the_command_is_refused_and_netns_attaches() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    named(&sandbox, "blue");
    for words in ["attach inner0", "status", "limit list", "detach --all"] {
        let output = ratelimit.output(&mut by_exec(&ratelimit, "blue", words));
        let expected = "ratelimit: /sys/fs/bpf/ratelimit is not on a BPF file system, where programs and maps are kept: one that is mounted here ends with this command, and all limits with it: ratelimit --netns blue … without `ip netns exec`\n";
        assert_eq!((output.status, output.stdout.as_str(), output.stderr.as_str()), (2, "", expected), "{words}");
    }
    let findings = ratelimit.output(&mut by_exec(&ratelimit, "blue", "doctor inner0"));
    assert!(findings.stdout.contains("ratelimit --netns blue … without `ip netns exec`"), "{findings:?}");
    assert!(!sandbox.ip("-n blue link show inner0").contains("xdp"));
    assert!(sandbox.pins().is_empty());

    assert!(ratelimit.ok("--netns blue attach inner0 --packets 10/s").starts_with("inner0: attached, native\n"));
    assert!(sandbox.ip("-n blue link show inner0").contains("xdp"));
    assert_eq!(ratelimit.json("status --netns blue")["interfaces"][0]["name"], "inner0");
    assert_eq!(ratelimit.json("status --netns /run/netns/blue")["interfaces"][0]["mode"], "native");
    assert!(ratelimit.ok("status").contains("in another network namespace"));
    let refused = ratelimit.fails("detach inner0");
    assert!(refused.starts_with("ratelimit: inner0 is attached in another network namespace: run"), "{refused}");
    assert!(sandbox.ip("-n blue link show inner0").contains("xdp"));
    assert!(ratelimit.ok("--netns blue detach inner0").starts_with("detached from inner0\n"));
    assert!(!sandbox.ip("-n blue link show inner0").contains("xdp"));
    ratelimit.ok("detach --all");
    sandbox.ip("netns del blue");
}

#[test]
fn invalid_network_namespaces_are_refused() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    for missing in ["red", "/run/netns/red"] {
        let line = ratelimit.output(ratelimit.command("status").args(["--netns", missing]));
        let expected = format!(
            "ratelimit: --netns {missing}: no such network namespace: `ip netns list` names them, or give the path of one\n"
        );
        assert_eq!((line.status, line.stderr), (2, expected));
    }
    for other in ["/proc/self/ns/mnt", "/dev/null", "/"] {
        let line = ratelimit.fails(&format!("--netns {other} attach eth0"));
        let expected = format!(
            "ratelimit: --netns {other}: this is not a network namespace: give a name that `ip netns list` shows, or the path of one"
        );
        assert_eq!(line, expected);
    }
    assert!(sandbox.pins().is_empty());
}
