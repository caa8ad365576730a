//! Names of policies in a configuration file.

use ratelimit_tests::{Daemon, Folder, Ratelimit, Sandbox};

const FILE: &str = "interfaces = [\"eth0\"]\n\
    [policy.web]\npackets = \"100/s\"\nparent = [\"/24=1k/s\"]\n\
    [policy.guests]\npackets = \"100/s\"\nparent = [\"/24=1k/s\"]\n\
    [default]\npolicy = \"guests\"\n\
    [[rule]]\nsource = \"10.0.0.1\"\npolicy = \"web\"\ncomment = \"shop\"\n\
    [[rule]]\nsources = [\"10.0.0.2\", \"2001:db8::/48\"]\npolicy = \"guests\"\n\
    [[rule]]\nsource = \"10.0.0.3\"\npackets = \"100/s\"\n";

#[test]
fn names_survive_in_lists_save_and_metrics() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    folder.write(FILE);
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    let names = || -> Vec<_> {
        let rows = ratelimit.json("limit list");
        rows.as_array().unwrap().iter().map(|row| row["policy"]["name"].as_str().map(str::to_owned)).collect()
    };
    let [web, guests] = ["web", "guests"].map(|name| Some(name.to_owned()));
    assert_eq!(names(), [guests.clone(), web.clone(), guests.clone(), None, guests.clone()]);
    let table = ratelimit.ok("limit list");
    assert!(table.lines().next().unwrap().contains("origin  policy  comment"), "{table}");
    let saved = ratelimit.ok("save");
    for part in [
        "[policy.web]\npackets = [\"100/s\"]",
        "[policy.guests]",
        "[default]\npolicy = \"guests\"",
        "comment = \"shop\"",
    ] {
        assert!(saved.contains(part), "{part}: {saved}");
    }
    assert_eq!(ratelimit.json("save")["rule"][0]["policy"], "web");
    folder.write(&saved);
    assert!(daemon.line().ends_with("rules: 0 set, 0 deleted, 5 unchanged"));
    assert_eq!(ratelimit.ok("save"), saved);
    let metrics = ratelimit.ok("metrics");
    for line in [
        "ratelimit_policy_rules{policy=\"guests\"} 3",
        "ratelimit_policy_rules{policy=\"web\"} 1",
        "ratelimit_policy_packets_per_second{policy=\"web\"} 100",
        "ratelimit_policy_rules{policy=\"limit\"} 1",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    // Another name is another policy, and its rules are named as replaced.
    folder.write(&FILE.replace("\"web\"", "\"guests\""));
    let line = daemon.line();
    assert!(
        line.ends_with("rules: 1 set, 0 deleted, 4 unchanged; replaced 10.0.0.1 (was web: 100/s, /24=1000/s)"),
        "{line}"
    );
    // A command that changes the limit makes it another one.
    ratelimit.ok("limit set 10.0.0.2 --packets 100/s");
    assert_eq!(names()[2], guests);
    ratelimit.ok("limit set 10.0.0.2 --packets 99/s");
    assert_eq!(names()[2], None);
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn names_that_cannot_be_kept_are_refused_with_their_place() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    for (name, why) in [
        ("x".repeat(33), "the name of a policy: expected at most 32 bytes of text"),
        (String::new(), "a policy needs a name"),
    ] {
        folder.write(&format!("interfaces = []\n[policy.\"{name}\"]\npackets = \"9/s\"\n"));
        let output = ratelimit.run(&format!("check {}", folder.file().display()));
        assert!(output.status == 1 && (output.stdout.clone() + &output.stderr).contains(why), "{output:?}");
        assert!((output.stdout.clone() + &output.stderr).contains(":2:"), "{output:?}");
    }
}
