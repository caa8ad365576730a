//! Interfaces of a configuration file: their owners, and changes of the file.

use ratelimit_tests::{Daemon, Folder, Ratelimit, Sandbox};

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ip("link add eth1.5 type veth peer name far1");
    sandbox.ip("link add eth2 type veth peer name far2");
    sandbox
}

/// Returns interfaces with their mode and owner.
fn attached(ratelimit: &Ratelimit<'_>) -> Vec<String> {
    let status = ratelimit.json("status");
    let text = |row: &serde_json::Value, key: &str| row[key].as_str().unwrap_or("-").to_owned();
    let row = |row| format!("{} {} {}", text(row, "name"), text(row, "mode"), text(row, "origin"));
    status["interfaces"].as_array().unwrap().iter().map(row).collect()
}

#[test]
fn interfaces_removed_from_the_file_are_detached_and_those_attached_by_command_stay() {
    let sandbox = sandbox();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    ratelimit.ok("attach eth2");
    folder.write("interfaces = [\"eth0\", \"eth1.5\", \"eth2\"]\n[interface.\"eth1.5\"]\ncapacity = \"5k/s\"\n");
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    assert!(daemon.line().ends_with("attached to eth0, eth1.5"));
    assert_eq!(attached(&ratelimit), ["eth0 native config", "eth1.5 native config", "eth2 native -"]);
    assert!(ratelimit.ok("status").contains(", attached by the configuration file\n"));

    // A command does not change the owner, and a restarted daemon knows it.
    ratelimit.ok("attach eth0");
    folder.write("interfaces = [\"eth0\"]\n");
    assert!(daemon.line().ends_with("; detached from eth1.5"));
    assert_eq!(attached(&ratelimit), ["eth0 native config", "eth2 native -"]);
    daemon.end();
    folder.write("interfaces = [\"eth1.5\"]\n");
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    assert!(daemon.line().ends_with("attached to eth1.5; detached from eth0"));
    assert_eq!(attached(&ratelimit), ["eth1.5 native config", "eth2 native -"]);
    assert_eq!(ratelimit.json("status")["interfaces"][0]["capacity"], serde_json::Value::Null);

    // The next reload attaches again what a command detached. A deleted interface is forgotten.
    ratelimit.ok("detach eth1.5");
    assert!(ratelimit.ok("reload").ends_with("attached to eth1.5\n"));
    daemon.line();
    sandbox.ip("link del eth1.5");
    folder.write("interfaces = []\n");
    assert!(daemon.line().ends_with("; detached from eth1.5"));
    assert_eq!(attached(&ratelimit), ["eth2 native -"]);
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn a_failed_reload_changes_no_interface_and_no_rule() {
    let sandbox = sandbox();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    let rule = "[[rule]]\nsource = \"10.0.0.1\"\npackets = \"5/s\"\n";
    let file =
        format!("interfaces = [\"eth0\", \"eth2\"]\n[interface.eth0]\nmode = \"generic\"\ncapacity = \"5k/s\"\n{rule}");
    folder.write(&file);
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    let shown = || {
        let status = ratelimit.json("status");
        (
            status["interfaces"].clone(),
            status["malformed"].clone(),
            ratelimit.json("limit list"),
            ratelimit.json("cost list"),
        )
    };
    let before = shown();
    assert_eq!(attached(&ratelimit), ["eth0 generic config", "eth2 native config"]);
    let other = "[service.tcp]\ncost = 3\n[settings]\nmalformed = \"pass\"\n[[rule]]\nsource = \"10.0.0.2\"\npackets = \"5/s\"\n";
    for (interfaces, expected) in [
        (
            "interfaces = [\"eth0\", \"eth1.5\", \"lo\"]\n[interface.eth0]\ncapacity = \"6k/s\"\n",
            "lo: its driver does not support native XDP: try --mode generic (works everywhere, slower) or --mode auto, or \
             mode = \"auto\" in [interface.lo] of the file",
        ),
        (
            "interfaces = [\"eth1.5\", \"eth0\"]\n[interface.eth0]\nmode = \"native\"\n",
            "eth0 has ratelimit in generic mode: `ratelimit detach eth0` first to change that; the rules are kept",
        ),
        (
            "interfaces = [\"eth7\"]\n[interface.eth7]\nwait = false\n",
            "no interface \"eth7\": this network namespace has lo, ",
        ),
    ] {
        folder.write(&format!("{interfaces}{other}"));
        let line = daemon.line();
        assert!(line.starts_with(&format!("ratelimit: nothing was changed: {expected}")), "{line}");
        assert_eq!(shown(), before, "{interfaces}");
    }

    // The output says so.
    ratelimit.ok("detach eth0");
    folder.write(&file.replace("generic", "native"));
    assert!(daemon.line().ends_with("0 set, 0 deleted, 1 unchanged; attached to eth0"));
    assert_eq!(attached(&ratelimit), ["eth0 native config", "eth2 native config"]);
    // Without a mode in the file, the running one stays.
    folder.write(&file.replace("mode = \"generic\"\n", ""));
    assert!(daemon.line().ends_with("0 set, 0 deleted, 1 unchanged"));
    folder.write(&file.replace("generic", "auto"));
    assert!(daemon.line().ends_with("0 set, 0 deleted, 1 unchanged"));
    daemon.end();
    ratelimit.ok("detach --all");
}
