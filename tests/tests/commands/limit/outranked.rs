//! Rules for services that have packets in common: the command says which of them applies.

use ratelimit_tests::{Daemon, Flood, Folder, Frame, Ratelimit, Sandbox};
use rustix::process::Signal;

/// Sends 50 packets, and returns how many of them passed.
fn passed(sandbox: &Sandbox, ratelimit: &Ratelimit<'_>, frame: &Frame) -> u64 {
    let all = || ratelimit.json("status")["passed"]["packets"].as_u64().unwrap();
    let before = all();
    Flood::of(frame.clone()).send(sandbox, 50);
    all() - before
}

#[test]
fn a_limit_that_outranks_another_or_is_outranked_says_so_in_both_orders_as_packets_meet_it() {
    let source = [10, 9, 0, 66];
    let (ssh, dns, ping) = (Frame::syn(source, 22), Frame::udp(source, 53), Frame::echo(source));
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    for (winner, loser, frame, is_new) in [
        ("tcp-syn", "tcp/22", &ssh, true),
        ("tcp-syn", "tcp/20-30", &ssh, true),
        ("tcp-syn", "tcp", &ssh, false),
        ("tcp-syn", "any", &ssh, false),
        ("tcp/22", "tcp", &ssh, false),
        ("udp/50-60", "udp", &dns, false),
        ("icmp", "any", &ping, false),
    ] {
        for (sources, is_winner_first) in [("default", true), ("default", false), ("10.9.0.0/24", true)] {
            ratelimit.ok("attach eth0");
            let of = |service: &str| if service == "any" { String::new() } else { format!(" --service {service}") };
            let set = |service: &str, burst: u64| {
                ratelimit.ok(&format!("limit set {sources}{} --packets 1/h --burst {burst}", of(service)))
            };
            let target = |service: &str| format!("{sources} {service}").replace(" any", "");
            let (text, line) = if is_winner_first {
                set(winner, 7);
                let line = format!("  does not apply to {}: 1/h", target(winner));
                let of_new = format!("  does not apply to new connections: {} has 1/h", target(winner));
                (set(loser, 3), if is_new { of_new } else { line })
            } else {
                set(loser, 3);
                let packets = if is_new { " to new connections" } else { "" };
                (set(winner, 7), format!("  applies{packets} in place of {}: 1/h", target(loser)))
            };
            let case = format!("{winner} and {loser} of {sources}, {is_winner_first}");
            // A limit of a service is there to set it apart from all others, so nothing is said of it. Of a prefix, the
            // rules inside it are named anyway.
            let is_said = loser != "any" || sources != "default";
            let expected: Vec<_> = is_said.then_some(line.as_str()).into_iter().collect();
            assert_eq!(text.lines().skip(1).collect::<Vec<_>>(), expected, "{case}: {text}");
            assert_eq!(passed(&sandbox, &ratelimit, frame), 7, "{case}");
            ratelimit.ok("detach --all");
        }
    }
}

#[test]
fn rules_of_narrower_and_wider_sources_are_named_where_they_decide() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let ssh = Frame::syn([10, 9, 0, 66], 22);
    ratelimit.ok("attach eth0");
    ratelimit.ok("limit set 10.9.0.66 --service tcp/22 --packets 1/h --burst 3");
    ratelimit.ok("limit set 10.9.0.66 --packets 1/h --burst 4");
    // New connections of a source with limits of its own follow the default of new connections.
    let text = ratelimit.ok("limit set default --service tcp-syn --packets 1/h --burst 7");
    let lines: Vec<_> = text.lines().skip(1).collect();
    let expected =
        ["  applies in place of 10.9.0.66: 1/h", "  applies to new connections in place of 10.9.0.66 tcp/22: 1/h"];
    assert_eq!(lines, expected);
    assert_eq!(passed(&sandbox, &ratelimit, &ssh), 7);
    let text = ratelimit.ok("limit set 10.9.0.66 --packets 1/h --burst 5");
    assert!(text.contains("\n  does not apply to default tcp-syn: 1/h\n"), "{text}");
    // A deny of the address outranks the default, and nothing else is said.
    let text = ratelimit.ok("deny add 10.9.0.67");
    assert_eq!(text, "10.9.0.67: deny\n");
    assert_eq!(passed(&sandbox, &ratelimit, &Frame::syn([10, 9, 0, 67], 22)), 0);
    // Services without common packets, and rules of others, are left out.
    assert_eq!(ratelimit.ok("limit set 10.9.0.66 --service udp/53 --packets 1/h --burst 9").lines().count(), 1);
    assert_eq!(ratelimit.ok("limit set 10.8.0.0/16 --service udp/53 --packets 5/s").lines().count(), 1);
    ratelimit.ok("detach --all");
}

#[test]
fn many_outranked_rules_are_counted() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    let lines: String = (0..20).map(|host| format!("10.8.0.{host}\n")).collect();
    ratelimit.ok_with("limit set - --service tcp/22 --packets 30/m", &lines);
    let text = ratelimit.ok("limit set default --service tcp-syn --packets 20/s");
    assert!(text.lines().count() == 7 && text.ends_with("\n  and in place of 15 more rules\n"), "{text}");
    let first = "  applies to new connections in place of 10.8.0.0 tcp/22: 30/m, and lets more through";
    assert_eq!(text.lines().nth(1), Some(first));
    ratelimit.ok("detach --all");
}

#[test]
fn check_and_reload_name_a_limit_that_lets_more_through_than_the_one_it_outranks() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    let ssh = "interfaces = [\"eth0\"]\n[service.\"tcp/22\"]\npackets = \"30/m\"\n";
    let syn = |rate: &str| format!("{ssh}[service.tcp-syn]\npackets = \"{rate}\"\n");
    folder.write(&syn("20/s"));
    let file = folder.file().display().to_string();
    let line =
        "default tcp-syn: 20/s applies to new connections in place of default tcp/22: 30/m, and lets more through";
    let output = ratelimit.run(&format!("check {file}"));
    assert_eq!((output.status, output.stderr), (0, format!("ratelimit: warning: {file}: {line}\n")));
    folder.write(ssh);
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    assert!(!daemon.line().contains("lets more"));
    folder.write(&syn("20/s"));
    assert!(ratelimit.ok("reload").contains(line));
    // Other pairs are no surprise: a lower limit, and services that are set apart from the default.
    for text in [syn("10/m"), format!("{ssh}[default]\npackets = \"10/m\"\n[service.udp]\npackets = \"9/s\"\n")] {
        folder.write(&text);
        assert_eq!(ratelimit.run(&format!("check {file}")).stderr, "", "{text}");
        assert!(!ratelimit.ok("reload").contains("lets more"), "{text}");
    }
    // Ports inside their protocol, and a limit of one address.
    for (text, line) in [
        (
            "[service.udp]\npackets = \"10/m\"\n[service.\"udp/53\"]\npackets = \"9/s\"\n",
            "default udp/53: 9/s applies to its packets in place of default udp: 10/m, and lets more through",
        ),
        (
            "[service.tcp-syn]\npackets = \"9/s\"\n[[rule]]\nsource = \"10.9.0.66\"\npackets = \"10/m\"\n",
            "default tcp-syn: 9/s applies to its packets in place of 10.9.0.66: 10/m, and lets more through",
        ),
    ] {
        folder.write(&format!("interfaces = [\"eth0\"]\n{text}"));
        let output = ratelimit.run(&format!("check {file}"));
        assert!(output.stderr.contains(line), "{output:?}");
    }
    // Its lines about each file stay unread.
    daemon.process.signal(Signal::TERM);
    assert!(daemon.process.wait().status.success());
    ratelimit.ok("detach --all");
}
