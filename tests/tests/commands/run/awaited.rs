//! Interfaces that a configuration file lists and that do not exist yet.

use ratelimit_tests::{Daemon, Flood, Folder, Frame, NotifySocket, PEER_IPV4, Ratelimit, Sandbox};
use serde_json::json;

use super::limits;
use crate::metrics::scrape;

const FILE: &str = "interfaces = [\"eth0\", \"wan0\"]\n[default]\npackets = \"10/d\"\n";

/// Starts a daemon, and returns it with its first line.
fn start(sandbox: &Sandbox, ratelimit: &Ratelimit<'_>, folder: &Folder, text: &str) -> (Daemon, String) {
    folder.write(text);
    let mut daemon = Daemon::start(sandbox, ratelimit, &folder.file());
    let line = daemon.line();
    (daemon, line)
}

/// Returns the interfaces of the instance.
fn attached(ratelimit: &Ratelimit<'_>) -> Vec<String> {
    let status = ratelimit.json("status");
    let name = |row: &serde_json::Value| row["name"].as_str().unwrap().to_owned();
    status["interfaces"].as_array().unwrap().iter().map(name).collect()
}

#[test]
fn a_missing_interface_leaves_the_others_limited_and_is_attached_when_it_appears() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    let (mut daemon, line) = start(&sandbox, &ratelimit, &folder, FILE);
    assert!(line.ends_with("; attached to eth0; waiting until these interfaces appear: wan0"), "{line}");
    Flood::of(Frame::udp(PEER_IPV4, 9)).send(&sandbox, 100);
    assert_eq!(ratelimit.json("status")["dropped"]["packets"], 90);

    // Every reader tells that the state is degraded.
    let shown = folder.file().display().to_string();
    let status = ratelimit.json("status");
    assert_eq!(
        status["config"],
        json!({"file": shown, "degraded": true, "refused": null, "stops": null, "crowdsec": null, "unattached": [{"name": "wan0", "wait": true, "exists": false}], "unusable_lists": [], "remote_lists": [], "differences": []})
    );
    let line =
        format!("degraded: wan0, which {shown} lists, does not exist: the daemon attaches to it when it appears\n");
    let text = ratelimit.ok("status");
    assert!(text.contains(&line), "{text}");
    let is_attached =
        |name: &str| scrape(&ratelimit)[&format!("ratelimit_config_interface_attached{{interface=\"{name}\"}}")];
    assert_eq!([is_attached("eth0"), is_attached("wan0")], [1.0, 0.0]);
    let output = ratelimit.run("doctor");
    let warning = format!("warning  wan0, daemon: {shown} lists it, but it does not exist\n");
    assert!(output.status == 1 && output.stdout.contains(&warning), "{}", output.stdout);

    // An attach does not change what an awaited interface shares.
    sandbox.ip("link add eth1 type veth");
    let line = ratelimit.fails("attach eth1 --unknown 5k/s");
    assert!(line.starts_with("ratelimit: --unknown would also change eth0, wan0: "), "{line}");
    // A reload waits too.
    assert!(ratelimit.ok("reload").ends_with("1 unchanged; waiting until these interfaces appear: wan0\n"));
    daemon.line();
    sandbox.ip("link add wan0 type veth");
    assert_eq!(daemon.line(), "ratelimit: wan0: appeared, attached");
    assert_eq!(attached(&ratelimit), ["eth0", "wan0"]);
    assert_eq!(
        ratelimit.json("status")["config"],
        json!({"file": shown, "degraded": false, "refused": null, "stops": null, "crowdsec": null, "unattached": [], "unusable_lists": [], "remote_lists": [], "differences": []})
    );
    assert_eq!([is_attached("eth0"), is_attached("wan0")], [1.0, 1.0]);
    assert!(ratelimit.ok("reload").ends_with("rules: 0 set, 0 deleted, 1 unchanged\n"));
    daemon.line();

    // The file owns it, so a file without it detaches it.
    folder.write(&FILE.replace(", \"wan0\"", ""));
    assert!(daemon.line().ends_with("1 unchanged; detached from wan0"));
    daemon.end();
    assert_eq!(ratelimit.json("status").get("config"), None);
    ratelimit.ok("detach --all");
}

#[test]
fn a_reload_while_an_attached_interface_is_gone_keeps_it_awaited() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    sandbox.ip("link add wan0 type veth");
    let file = FILE.replace("[default]", "[interface.wan0]\nmode = \"generic\"\ncapacity = \"5k/s\"\n[default]");
    let (mut daemon, _) = start(&sandbox, &ratelimit, &folder, &file);
    sandbox.ip("link del wan0");
    folder.write(&file.replace("10/d", "11/d"));
    let line = daemon.line();
    assert!(
        line.ends_with("rules: 1 set, 0 deleted, 0 unchanged; replaced default (was 10/d); waiting until these interfaces appear: wan0"),
        "{line}"
    );
    assert_eq!(limits(&ratelimit), ["default any 11/d config"]);
    // A saved file keeps it, with its mode and capacity.
    let saved = ratelimit.json("save");
    assert_eq!(saved["interfaces"], json!(["eth0", "wan0"]));
    assert_eq!(saved["interface"], json!({"wan0": {"mode": "generic", "capacity": "5000/s"}}));
    sandbox.ip("link add wan0 type veth");
    // The other end of the pair is here, and sends several packets as one.
    let line = daemon.line();
    let begin =
        "ratelimit: wan0: appeared, attached; wan0: joined packets count as one: veth0 sends several packets as one";
    assert!(line.starts_with(begin), "{line}");
    let wan0 = &ratelimit.json("status")["interfaces"][1];
    assert_eq!(
        (&wan0["mode"], &wan0["capacity"], &wan0["origin"]),
        (&json!("generic"), &json!(5_000), &json!("config"))
    );
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn a_file_whose_interfaces_are_all_missing_takes_effect_when_the_first_appears() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    // The only capacity is that of the missing interface.
    let (mut daemon, line) = start(
        &sandbox,
        &ratelimit,
        &folder,
        "interfaces = [\"wan0\"]\n[interface.wan0]\ncapacity = \"9k/s\"\n[default]\npackets = \"7/s\"\nthrottle = \"elastic\"\n",
    );
    assert!(
        line.ends_with("rules: 1 set, 0 deleted, 0 unchanged; waiting until these interfaces appear: wan0"),
        "{line}"
    );
    assert_eq!(limits(&ratelimit), ["default any 7/s config"]);
    sandbox.ip("link add wan0 type veth");
    assert_eq!(daemon.line(), "ratelimit: wan0: appeared, attached");
    assert_eq!(ratelimit.json("status")["interfaces"][0]["capacity"], 9_000);
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn with_wait_off_a_missing_interface_refuses_the_file() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    let strict = FILE.replace("[default]", "[interface.wan0]\nwait = false\n[default]");
    folder.write(&strict);
    let line = ratelimit.fails(&format!("run -c {}", folder.file().display()));
    assert_eq!(line, "ratelimit: no interface \"wan0\": this network namespace has lo, eth0");
    assert!(sandbox.pins().is_empty());
    let (mut daemon, _) = start(&sandbox, &ratelimit, &folder, FILE);
    folder.write(&strict);
    assert!(daemon.line().starts_with("ratelimit: nothing was changed: no interface \"wan0\""));
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn a_command_that_attached_and_detached_an_awaited_interface_is_obeyed() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    let (mut daemon, _) = start(&sandbox, &ratelimit, &folder, FILE);
    sandbox.ip("link add wan0 type veth");
    assert_eq!(daemon.line(), "ratelimit: wan0: appeared, attached");
    ratelimit.ok("detach wan0");
    let shown = folder.file().display().to_string();
    let line = format!("degraded: wan0, which {shown} lists, is not attached: run `ratelimit reload`\n");
    assert!(ratelimit.ok("status").contains(&line));
    sandbox.ip("link del wan0");
    sandbox.ip("link add wan0 type veth");
    assert!(ratelimit.ok("reload").ends_with("; attached to wan0\n"));
    // No other line came before this one, so the daemon left the interface alone.
    assert!(daemon.line().ends_with("; attached to wan0"));
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn the_service_manager_knows_the_awaited_interfaces() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    let manager = NotifySocket::new(&sandbox, "notify");
    folder.write(FILE);
    let shown = folder.file().display().to_string();
    let mut command = ratelimit.command(&format!("run -c {shown}"));
    command.env("NOTIFY_SOCKET", manager.path());
    let mut daemon = Daemon::by(&sandbox, command);
    daemon.line();
    assert_eq!(manager.message(), format!("READY=1\nSTATUS={shown} in force, rules: 1, waiting for wan0\n"));
    sandbox.ip("link add wan0 type veth");
    daemon.line();
    assert_eq!(manager.message(), format!("READY=1\nSTATUS={shown} in force, rules: 1\n"));
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn an_interface_that_appears_and_cannot_be_attached_is_named_and_stays_degraded() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    let (mut daemon, _) = start(&sandbox, &ratelimit, &folder, FILE);
    // The loopback interface has no native XDP.
    let rename = |from: &str, to: &str| {
        sandbox.ip(&format!("link set {from} down"));
        sandbox.ip(&format!("link set {from} name {to}"));
    };
    rename("lo", "wan0");
    let line = daemon.line();
    assert!(line.starts_with("ratelimit: wan0: appeared, but not limited: wan0: its driver does not"), "{line}");
    assert_eq!(ratelimit.json("status")["config"]["unattached"][0]["exists"], true);
    let finding = format!("error    wan0, daemon: {} lists it, but it is not attached\n", folder.file().display());
    assert!(ratelimit.run("doctor").stdout.contains(&finding));
    rename("wan0", "lo");
    assert_eq!(ratelimit.json("status")["config"]["unattached"][0]["exists"], false);
    sandbox.ip("link add wan0 type veth");
    assert_eq!(daemon.line(), "ratelimit: wan0: appeared, attached");
    daemon.end();
    ratelimit.ok("detach --all");
}
