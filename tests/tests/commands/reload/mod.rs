//! `reload`: changes of the configuration file, by command or noticed by the daemon.

mod distinct_policies;
mod full_table;
mod interfaces;
mod sequences;
mod settings;
mod shadow;
pub(crate) mod ssh;

use ratelimit_tests::{Daemon, Flood, Folder, Frame, Ratelimit, Sandbox};

use crate::run::limits;

#[test]
fn a_reload_names_what_it_has_added_and_deleted_the_defaults_first() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    let rules = |numbers: std::ops::Range<u32>| -> String {
        numbers.map(|number| format!("[[rule]]\nsource = \"10.0.0.{number}\"\npackets = \"{number}/s\"\n")).collect()
    };
    let default = "[default]\npackets = \"10/d\"\n[service.\"udp/53\"]\npackets = \"20/d\"\n";
    let eth0 = "interfaces = [\"eth0\"]\n";
    folder.write(&format!("{eth0}{default}{}", rules(1..3)));
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    assert!(daemon.line().ends_with("rules: 4 set, 0 deleted, 0 unchanged; attached to eth0"));
    for (text, expected) in [
        (rules(1..3), "0 set, 2 deleted, 2 unchanged; deleted default (was 10/d), default udp/53 (was 20/d)"),
        (
            format!("{default}{}", rules(2..9)),
            "8 set, 1 deleted, 1 unchanged; added default (10/d), default udp/53 (20/d), 10.0.0.3 (3/s), 10.0.0.4 (4/s), \
             10.0.0.5 (5/s) and 3 more; deleted 10.0.0.1 (was 1/s)",
        ),
        (
            format!("{}{}", default.replace("10/d", "11/d"), rules(8..9)),
            "1 set, 6 deleted, 2 unchanged; deleted 10.0.0.2 (was 2/s), 10.0.0.3 (was 3/s), 10.0.0.4 (was 4/s), \
             10.0.0.5 (was 5/s), 10.0.0.6 (was 6/s) and 1 more; replaced default (was 10/d)",
        ),
    ] {
        folder.write(&format!("{eth0}{text}"));
        let line = daemon.line();
        assert!(line.ends_with(&format!(": reloaded, rules: {expected}")), "{line}");
    }
    // A daemon that starts with another file tells what it deletes.
    daemon.end();
    folder.write("interfaces = []\n");
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    let line = daemon.line();
    let deleted = "deleted default (was 11/d), default udp/53 (was 20/d), 10.0.0.8 (was 8/s)";
    assert!(line.ends_with(&format!("0 set, 3 deleted, 0 unchanged; {deleted}; detached from eth0")), "{line}");
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn a_range_of_ports_changes_with_its_cost() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    let write = |range: &str| {
        folder.write(&format!(
            "interfaces = [\"eth0\"]\n[service.\"udp/{range}\"]\npackets = \"5/h\"\ncost = 3\n[[rule]]\nsource = \"10.9.0.66\"\nservice = \"udp/{range}\"\npolicy = \"deny\"\n"
        ));
    };
    write("8000-8099");
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    write("8050-8149");
    assert!(daemon.line().contains("rules: 2 set, 2 deleted, 0 unchanged"));
    assert_eq!(limits(&ratelimit), ["default udp/8050-8149 5/h config"]);
    assert_eq!(ratelimit.json("cost list")[0]["service"], "udp/8050-8149");
    for port in [8049, 8050, 8149, 8150] {
        Flood::of(Frame::udp([10, 9, 0, 66], port)).send(&sandbox, 10);
    }
    assert_eq!(ratelimit.json("status")["reasons"]["denied"]["packets"], 20);
    // A command's rule for one of these ports is in the way of the file, which stays as it is.
    ratelimit.ok("deny add 10.9.0.67 --service udp/9000");
    write("8900-9000");
    let line = daemon.line();
    assert!(line.contains("udp/8900-9000 overlaps udp/9000, which has rules or a cost"), "{line}");
    assert_eq!(limits(&ratelimit), ["default udp/8050-8149 5/h config"]);
    assert_eq!(ratelimit.json("cost list")[0]["service"], "udp/8050-8149");
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn the_order_of_parents_is_no_change() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    folder.write(
        "interfaces = [\"eth0\"]\n[default]\npackets = \"1000/s\"\nparent = [\"all=500k/s\", \"/48=30k/s\", \"/24=20k/s\"]\n",
    );
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    assert!(daemon.line().ends_with("rules: 1 set, 0 deleted, 0 unchanged; attached to eth0"));
    assert!(ratelimit.ok("reload").ends_with("rules: 0 set, 0 deleted, 1 unchanged\n"));
    daemon.line();
    daemon.end();
    ratelimit.ok("detach --all");
}
