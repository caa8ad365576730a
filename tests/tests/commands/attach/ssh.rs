//! The operator's SSH session.

use std::{fs, process::Command};

use ratelimit_tests::{Flood, Frame, Output, Ratelimit, Sandbox};
use rustix::mount::{MountFlags, mount};
use serde_json::json;

use crate::reload::ssh::log_in;

/// Address of the SSH client.
const PEER: &str = "10.9.0.5";

/// How a refusal ends that an allow of this client would prevent.
const KEPT: &str = "; `ratelimit allow add 10.9.0.5` keeps the session";

/// Runs `ratelimit` in an SSH session from `peer`.
fn through_ssh(ratelimit: &Ratelimit<'_>, words: &str, peer: &str) -> Output {
    let mut command = ratelimit.command(words);
    command.env("SSH_CONNECTION", format!("{peer} 50000 10.9.0.1 22"));
    ratelimit.output(&mut command)
}

#[test]
fn the_first_attach_allows_the_peer_of_the_ssh_session() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let through_ssh = |words: &str, peer: &str| {
        let output = through_ssh(&ratelimit, words, peer);
        assert_eq!(output.status, 0, "{output:?}");
        output.stdout
    };
    let text = through_ssh("attach eth0 --packets 1/h --burst 1", "10.9.0.5");
    assert!(text.contains("10.9.0.5: allowed, because it is the address of this SSH session"), "{text}");
    Flood::of(Frame::syn([10, 9, 0, 5], 22)).send(&sandbox, 100);
    assert_eq!(ratelimit.json("status")["reasons"]["allowed"]["packets"], 100);
    assert_eq!(
        ratelimit.json("allow list"),
        json!([{"source": "10.9.0.5", "service": "any", "expires_in_seconds": null, "covers": null, "covered_by": null, "origin": "ssh", "comment": null}])
    );
    // Later decisions of the operator stand.
    through_ssh("allow del 10.9.0.5 --force", "10.9.0.5");
    through_ssh("attach eth0 --unknown 10k/s --force", "10.9.0.5");
    through_ssh("cost set udp/53 2", "10.9.0.5");
    assert_eq!(ratelimit.json("allow list"), json!([]));
    ratelimit.ok("detach --all");

    through_ssh("attach eth0 --no-allow-ssh", "10.9.0.5");
    assert_eq!(ratelimit.json("allow list"), json!([]));
    ratelimit.ok("detach --all");

    // `sudo` removes the variable for the command, but not for the shell that started it.
    let inner = ratelimit.command("attach eth0");
    let mut shell = Command::new("sh");
    let line = format!("env --unset=SSH_CONNECTION {} attach eth0; true", inner.get_program().display());
    shell.args(["-c", &line]).env("SSH_CONNECTION", "2001:db8::5 50000 2001:db8::1 22");
    let output = ratelimit.output(&mut shell);
    assert!(output.stdout.contains("2001:db8::5: allowed"), "{output:?}");
    ratelimit.ok("detach --all");
}

#[test]
fn rules_that_block_an_ssh_session_require_force() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    let through_ssh = |words: &str| through_ssh(&ratelimit, &format!("{words} --no-allow-ssh"), PEER);
    let refused = |words: &str| {
        let rules = || ["allow list", "deny list", "limit list"].map(|words| ratelimit.json(words));
        let before = rules();
        let output = through_ssh(words);
        let expected = "ratelimit: this SSH session comes from 10.9.0.5, which would be ";
        let replaced = "ratelimit: 10.9.0.5 has the rule allow, which this would replace";
        let is_named = [expected, replaced].iter().any(|text| output.stderr.starts_with(text));
        let as_agreed = is_named && output.stderr.contains(": nothing was changed, --force");
        assert!(output.status == 2 && as_agreed, "{words}: {output:?}");
        assert_eq!(rules(), before, "{words}");
    };
    let accepted = |words: &str| {
        let output = through_ssh(words);
        assert_eq!(output.status, 0, "{words}: {output:?}");
    };
    refused("deny add 10.9.0.5");
    refused("deny add 10.9.0.0/24");
    refused("deny add 0.0.0.0/0 --for 10m");
    accepted("deny add 10.10.0.0/16");
    accepted("deny add ::/0");
    // With a rule of its own, the session allows a deny of its prefix. The rule then stays.
    accepted("allow add 10.9.0.5");
    accepted("deny add 10.9.0.0/24");
    refused("allow del 10.9.0.5");
    refused("deny add 10.9.0.5");
    refused("limit set 10.9.0.5 --packets 1/d");
    // The service of the session, or of the next connection.
    for service in ["tcp/22", "tcp", "tcp-syn"] {
        refused(&format!("deny add 10.9.0.5 --service {service}"));
        refused(&format!("limit set 10.9.0.5 --service {service} --packets 1/d"));
        accepted(&format!("deny add 10.9.0.0/24 --service {service}"));
        accepted(&format!("deny del 10.9.0.0/24 --service {service}"));
    }
    accepted("limit set 10.9.0.5 --service udp/53 --packets 1/d");
    accepted("limit del 10.9.0.5 --service udp/53");
    accepted("limit set 10.9.0.5 --packets 1/d --force");
    accepted("deny add 10.9.0.5 --force");
    // Rules remain while nothing is attached. The next attach checks them.
    ratelimit.ok("detach eth0");
    let output = self::through_ssh(&ratelimit, "attach eth0", PEER);
    assert!(output.status == 2 && output.stderr.contains("which the rules that were kept deny"), "{output:?}");
    assert!(!sandbox.ip("link show eth0").contains("xdp"));
    accepted("attach eth0");
    // A failed attach leaves no rule.
    ratelimit.ok("deny del 10.9.0.5");
    ratelimit.ok("deny del 10.9.0.0/24");
    ratelimit.ok("detach eth0");
    assert_eq!(self::through_ssh(&ratelimit, "attach eth0 lo", PEER).status, 2);
    assert_eq!(ratelimit.json("allow list"), json!([]));
    ratelimit.ok("detach --all");
}

#[test]
fn changes_that_expose_an_ssh_session_to_a_deny_are_refused() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    let through_ssh = |words: &str| {
        let output = through_ssh(&ratelimit, &format!("{words} --no-allow-ssh"), PEER);
        (output.status, output.stderr)
    };
    let refused = |words: &str, fate: &str, rule: &str| {
        let fate = format!("{fate} by the rule for {rule}");
        // An allow that the operator gives up is not advised again.
        let way = if words == "limit del 10.9.0.5" { KEPT } else { "" };
        let line = format!(
            "ratelimit: this SSH session comes from 10.9.0.5, which would be {fate}: nothing was changed, --force does it anyway{way}\n"
        );
        assert_eq!(through_ssh(words), (2, line), "{words}");
    };
    let accepted = |words: &str| assert_eq!(through_ssh(words).0, 0, "{words}");
    accepted("allow add 10.9.0.0/24");
    refused("limit set 10.9.0.0/25 --packets 1/d", "limited to 1/d per source, burst 1", "10.9.0.0/25");
    refused(
        "limit set 10.9.0.0/24 --service tcp/22 --packets 1/d",
        "limited to 1/d per source, burst 1",
        "10.9.0.0/24 tcp/22",
    );
    refused("limit set 10.9.0.0/25 --parent all=1/d", "limited to no limit per source; parents all=1/d", "10.9.0.0/25");
    refused("deny add 10.9.0.0/24 --service tcp", "denied", "10.9.0.0/24 tcp");
    accepted("limit set 10.9.0.5 --packets 1000/s --force");
    accepted("deny add 10.9.0.0/24 --force");
    refused("limit del 10.9.0.5", "denied", "10.9.0.0/24");
    accepted("limit del 10.9.0.5 --force");
    ratelimit.ok("detach --all");
}

/// The session has to work after a temporary rule of its own has ended, too.
#[test]
fn a_rule_that_denies_a_session_after_its_temporary_rule_is_refused() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    let through_ssh = |words: &str| {
        let output = through_ssh(&ratelimit, words, PEER);
        (output.status, output.stderr)
    };
    let refused = |words: &str, fate: &str| {
        let line = format!(
            "ratelimit: this SSH session comes from 10.9.0.5, which would be {fate} after its temporary rule ends: nothing was changed, --force does it anyway{KEPT}\n"
        );
        assert_eq!(through_ssh(words), (2, line), "{words}");
    };
    for (temporary, end) in
        [("allow add 10.9.0.5 --for 1h", "allow"), ("limit set 10.9.0.5 --packets 1000/s --for 1h", "limit")]
    {
        assert_eq!(through_ssh(temporary).0, 0, "{temporary}");
        refused("deny add 10.9.0.0/24", "denied");
        refused("limit set default --packets 1/s", "limited to 1/s per source, burst 1");
        // This deny ends, but later than the session's rule.
        refused("deny add 10.9.0.0/24 --for 2h", "denied");
        // This one ends before it could deny the session.
        assert_eq!(through_ssh("deny add 10.9.0.0/24 --for 1m").0, 0, "{temporary}");
        ratelimit.ok("deny del 10.9.0.0/24");
        ratelimit.ok(&format!("{end} del 10.9.0.5"));
    }
    assert_eq!(through_ssh("allow add 10.9.0.5").0, 0);
    assert_eq!(through_ssh("deny add 10.9.0.0/24").0, 0);
    ratelimit.ok("detach --all");
}

#[test]
fn the_first_command_of_an_ssh_session_allows_its_address_so_that_no_limit_shuts_it_out() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    let output = through_ssh(&ratelimit, "limit set default --packets 10/s --ban 1h", PEER);
    let line = "10.9.0.5: allowed, because it is the address of this SSH session (to undo: `ratelimit allow del 10.9.0.5 --force`)\n";
    assert!(output.status == 0 && output.stdout.ends_with(line), "{output:?}");
    let output = through_ssh(&ratelimit, "-j limit set default --service tcp/22 --packets 1/m", "10.9.0.6");
    let answer: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!([&answer["allowed_ssh"], &answer["source"]], ["10.9.0.6", "default"]);
    // Another command of a session repeats nothing.
    let output = through_ssh(&ratelimit, "limit set default --service tcp/22 --packets 1/m", PEER);
    assert!(!output.stdout.contains("SSH"), "{output:?}");
    for peer in [[10, 9, 0, 5], [10, 9, 0, 6]] {
        for frame in [Frame::syn(peer, 22), Frame::ack(peer, 22), Frame::udp(peer, 9)] {
            Flood::of(frame).send(&sandbox, 2_000);
        }
    }
    assert_eq!(ratelimit.json("status")["reasons"]["allowed"]["packets"], 12_000);
    assert_eq!(ratelimit.json("deny list"), json!([]));
    Flood::of(Frame::udp([10, 9, 0, 7], 9)).send(&sandbox, 2_000);
    assert_eq!(ratelimit.json("deny list")[0]["source"], "10.9.0.7");
    // A command that fails allows nothing.
    assert_eq!(through_ssh(&ratelimit, "set --unknown 10k/s --ipv6-prefix 48", "10.9.0.8").status, 2);
    assert_eq!(ratelimit.json("allow list").as_array().unwrap().len(), 2);
    // Each of several changes names it.
    let output = through_ssh(&ratelimit, "-j deny add 10.8.0.1 10.8.0.2", "10.9.0.9");
    let answer: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!([&answer[0]["allowed_ssh"], &answer[1]["allowed_ssh"]], ["10.9.0.9", "10.9.0.9"]);
    ratelimit.ok("detach --all");
}

#[test]
fn a_limit_or_a_ban_that_a_session_can_exceed_requires_force() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    let run = |words: &str| through_ssh(&ratelimit, &format!("{words} --no-allow-ssh"), PEER);
    let own = "this SSH session comes from 10.9.0.5";
    let refused = |words: &str, begin: &str, fate: &str| {
        let way = if begin == own { KEPT } else { "" };
        let line =
            format!("ratelimit: {begin}, which would be {fate}: nothing was changed, --force does it anyway{way}\n");
        let output = run(words);
        assert_eq!((output.status, output.stderr.as_str()), (2, line.as_str()), "{words}");
    };
    let accepted = |words: &str| assert_eq!(run(words).status, 0, "{words}");
    let banned = "limited to 10/s per source, burst 10, ban 1h by the rule for default";
    refused("limit set default --packets 10/s --ban 1h", own, banned);
    refused("attach eth0 --packets 10/s --ban 1h", own, banned);
    let low = "limited to 1/m per source, burst 1 by the rule for default tcp/22";
    refused("limit set default --service tcp/22 --packets 1/m", own, low);
    refused("set --unknown 50/s", own, "limited to 50/s with all unknown sources by --unknown");
    accepted("limit set default --service tcp-syn --packets 1/s");
    accepted("limit set default --packets 100/s");
    // In shadow, no rule is enforced. Its end is checked.
    accepted("set --shadow on");
    accepted("limit set default --packets 10/s --ban 1h");
    refused("set --shadow off", own, banned);
    accepted("limit set default --packets 1000/s --ban off");
    accepted("set --shadow off");
    // A session that logind knows counts too.
    log_in(&sandbox, "1", "10.9.0.6", "active");
    accepted("allow add 10.9.0.5");
    refused("deny add 10.9.0.6", "an SSH session comes from 10.9.0.6", "denied by the rule for 10.9.0.6");
    accepted("allow add 10.9.0.6");
    accepted("limit set default --packets 10/s --ban 1h");
    let fate = "limited to 10/s per source, burst 10, ban 1h by the rule for default";
    refused("allow del 10.9.0.6", "an SSH session comes from 10.9.0.6", fate);
    accepted("allow del 10.9.0.6 --force");
    ratelimit.ok("detach --all");
}

/// The file of logind has no port. The configuration of the server does.
#[test]
fn a_session_of_logind_is_protected_on_the_ports_of_the_server() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    log_in(&sandbox, "1", "10.9.0.6", "active");
    let limit = |port: &str| format!("limit set default --service tcp/{port} --packets 1/m");
    let configure = |text: &str| {
        sandbox.victim(|| {
            fs::create_dir_all("/etc/ssh/sshd_config.d").unwrap();
            fs::write("/etc/ssh/sshd_config", "Include /etc/ssh/sshd_config.d/*.conf\n").unwrap();
            fs::write("/etc/ssh/sshd_config.d/port.conf", text).unwrap();
        });
    };
    sandbox.victim(|| mount("tmpfs", "/etc", "tmpfs", MountFlags::empty(), None).unwrap());
    // Without a configuration, it is 22.
    let low = "an SSH session comes from 10.9.0.6, which would be limited to 1/m";
    assert!(ratelimit.fails(&limit("22")).contains(low));
    ratelimit.ok(&limit("2222"));
    ratelimit.ok("limit del default --service tcp/2222");
    configure("Port 2222\nListenAddress 10.9.0.1:2022\n");
    for port in ["2222", "2022"] {
        let refused = ratelimit.fails(&limit(port));
        assert!(
            refused.contains(&format!("{low} per source, burst 1 by the rule for default tcp/{port}:")),
            "{refused}"
        );
    }
    ratelimit.ok(&limit("22"));
    ratelimit.ok("detach --all");
}
