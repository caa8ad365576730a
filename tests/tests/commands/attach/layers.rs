//! A bridge and its ports, and a macvlan on its parent: packets pass both interfaces, and are charged once.

use std::{fs, process::Command};

use ratelimit_tests::{Daemon, Flood, Folder, Frame, PEER_IPV4, Ratelimit, Sandbox};
use serde_json::Value;

/// Names of the interfaces of the instance.
fn attached(ratelimit: &Ratelimit<'_>) -> Vec<String> {
    let status = ratelimit.json("status");
    let rows = status["interfaces"].as_array().unwrap().iter();
    rows.map(|row| row["name"].as_str().unwrap().to_owned()).collect()
}

/// Puts the link to the peer below a bridge, which takes its address.
fn bridged(sandbox: &Sandbox) {
    sandbox.ip("link add br0 address 02:00:00:00:00:01 type bridge");
    sandbox.ip("link set eth0 master br0");
    sandbox.ip("link set br0 up");
}

/// Returns how many packets of one source the instance has charged and passed, and how many it has dropped.
fn counted(ratelimit: &Ratelimit<'_>) -> [u64; 2] {
    let status = ratelimit.json("status");
    let of = |status: &Value, what: &str| status[what]["packets"].as_u64().unwrap();
    [of(&status, "passed"), of(&status, "dropped")]
}

#[test]
fn a_bridge_beside_its_port_is_refused_in_both_orders_and_nothing_is_charged_twice() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    bridged(&sandbox);
    ratelimit.ok("attach eth0 --packets 10/d --burst 100");
    let refused = "ratelimit: br0 is above eth0, which is attached: packets through both would be charged twice: keep eth0; or run `ratelimit detach eth0` first, then attach br0";
    assert_eq!(ratelimit.fails("attach br0 --mode generic"), refused);
    // Before the refusal, each packet took two of the burst.
    Flood::of(Frame::udp(PEER_IPV4, 9)).send(&sandbox, 100);
    assert_eq!(counted(&ratelimit), [100, 0]);
    ratelimit.ok("detach --all");

    ratelimit.ok("attach br0 --mode generic --packets 10/d --burst 100");
    for mode in ["native", "generic", "auto"] {
        let refused = "ratelimit: eth0 is below br0, which is attached: packets through both would be charged twice: keep br0; or run `ratelimit detach br0` first, then attach eth0";
        assert_eq!(ratelimit.fails(&format!("attach eth0 --mode {mode}")), refused);
    }
    assert_eq!(attached(&ratelimit), ["br0"]);
    // What is attached already can be named again.
    ratelimit.ok("attach br0 --mode generic --shadow");
    ratelimit.ok("detach --all");
    let both = "packets through both would be charged twice: attach eth0, or br0 alone";
    assert_eq!(ratelimit.fails("attach br0 eth0 --mode generic"), format!("ratelimit: eth0 is below br0: {both}"));
    assert_eq!(ratelimit.fails("attach eth0 br0 --mode generic"), format!("ratelimit: br0 is above eth0: {both}"));
    assert!(sandbox.pins().is_empty());

    // Further ports count too, and so do interfaces above the bridge.
    sandbox.ip("link add tap0 type veth peer name far0");
    sandbox.ip("link set tap0 master br0");
    sandbox.ip("link add link br0 name mv0 type macvlan");
    ratelimit.ok("attach eth0");
    let line = ratelimit.fails("attach br0 --mode generic");
    let advice = ": run `ratelimit detach eth0` first, then attach br0; or keep eth0, and attach tap0 too";
    assert!(line.ends_with(advice), "{line}");
    let line = ratelimit.fails("attach mv0 --mode generic");
    assert!(line.starts_with("ratelimit: mv0 is above eth0, which is attached: "), "{line}");
    // Two ports of one bridge are beside each other.
    ratelimit.ok("attach tap0");
    assert_eq!(attached(&ratelimit), ["eth0", "tap0"]);
    ratelimit.ok("detach --all");
    // Another instance has limits of its own, so each charges a packet once.
    ratelimit.ok("attach eth0");
    ratelimit.ok("attach br0 --mode generic --pins /sys/fs/bpf/other");
    ratelimit.ok("detach --all --pins /sys/fs/bpf/other");
    ratelimit.ok("detach --all");
}

#[test]
fn the_kernel_refuses_a_program_below_another_and_the_error_names_that_interface() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    bridged(&sandbox);
    ratelimit.ok("attach br0 --mode generic --pins /sys/fs/bpf/other");
    for mode in ["native", "generic", "auto"] {
        let line = ratelimit.fails(&format!("attach eth0 --mode {mode}"));
        assert!(line.starts_with("ratelimit: eth0: br0 above it has the XDP program \"ratelimit"), "{line}");
        let end = " of another instance (id ";
        let advice = "and the kernel then refuses every program below, in each mode: `ratelimit --pins /sys/fs/bpf/other detach br0` removes it; attach eth0 first, and br0 after it";
        assert!(line.contains(end) && line.ends_with(advice), "{line}");
    }
    let shown = folder.file().display().to_string();
    folder.write("interfaces = [\"eth0\"]\n[default]\npackets = \"10/d\"\n");
    let output = ratelimit.run(&format!("check --host {shown}"));
    assert!(
        output.status == 1 && output.stdout.starts_with(&format!("{shown}: eth0: br0 above it has ")),
        "{output:?}"
    );
    // A daemon limits the other interfaces, says so, and tries again.
    sandbox.add_link("eth1", "far1");
    folder.write("interfaces = [\"eth0\", \"eth1\"]\n[default]\npackets = \"10/d\"\n");
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    let line = daemon.line();
    assert!(line.contains("; attached to eth1; eth0 is not attached: br0 above it has the XDP program"), "{line}");
    let status = ratelimit.ok("status");
    let degraded = format!("degraded: eth0, which {shown} lists, is not attached: br0 above it has the XDP program");
    assert!(status.contains(&degraded), "{status}");
    ratelimit.ok("detach --all --pins /sys/fs/bpf/other");
    assert_eq!(daemon.line(), "ratelimit: eth0: no other interface keeps it off any more, attached");
    assert_eq!(attached(&ratelimit), ["eth0", "eth1"]);
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn a_file_with_the_upper_interface_first_limits_the_lower_one_and_says_so() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    bridged(&sandbox);
    let shown = folder.file().display().to_string();
    let file = "interfaces = [\"br0\", \"eth0\"]\n[interface.br0]\nmode = \"generic\"\n[default]\npackets = \"10/d\"\nburst = 100\n";
    folder.write(file);
    let why = "it is above eth0, and packets through both would be charged twice";
    let output = ratelimit.run(&format!("check --host {shown}"));
    assert_eq!((output.status, output.stdout), (1, format!("{shown}: the daemon does not attach br0: {why}\n")));
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    let line = daemon.line();
    assert!(line.ends_with(&format!("; attached to eth0; br0 is not attached: {why}")), "{line}");
    Flood::of(Frame::udp(PEER_IPV4, 9)).send(&sandbox, 300);
    assert_eq!(counted(&ratelimit), [100, 200]);
    let status = ratelimit.ok("status");
    assert!(status.contains(&format!("degraded: br0, which {shown} lists, is not attached: {why}\n")), "{status}");
    let doctor = ratelimit.run("doctor").stdout;
    assert!(
        doctor.contains(&format!("warning  br0, daemon: {shown} lists it, but it is not attached: {why}\n")),
        "{doctor}"
    );

    // Without the port, the bridge is limited. When the port is made anew, it is protected, and the bridge makes room.
    sandbox.ip("link del eth0");
    assert_eq!(daemon.line(), "ratelimit: br0: no other interface keeps it off any more, attached");
    assert_eq!(ratelimit.json("status")["interfaces"][0]["name"], "br0");
    sandbox.add_link("eth0", "back0");
    assert_eq!(daemon.line(), "ratelimit: eth0: back again, attached");
    sandbox.ip("link set eth0 master br0");
    assert_eq!(daemon.line(), format!("ratelimit: br0: detached: {why}"));
    assert_eq!(attached(&ratelimit), ["eth0"]);
    // A port that leaves the bridge.
    sandbox.ip("link set eth0 nomaster");
    let line = daemon.line();
    assert!(line.starts_with("ratelimit: br0: no other interface keeps it off any more, attached"), "{line}");
    assert_eq!(attached(&ratelimit), ["br0", "eth0"]);
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn a_reload_replaces_a_bridge_by_its_port_and_takes_it_back_if_the_port_refuses() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    // It has no native XDP.
    sandbox.ip("link add ifb0 type ifb");
    bridged(&sandbox);
    sandbox.ip("link set ifb0 master br0");
    let file = |interfaces: &str| {
        format!("interfaces = {interfaces}\n[interface.br0]\nmode = \"generic\"\n[default]\npackets = \"10/d\"\n")
    };
    folder.write(&file("[\"br0\"]"));
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    assert!(daemon.line().contains("; attached to br0"));
    folder.write(&file("[\"br0\", \"eth0\", \"ifb0\"]"));
    let line = daemon.line();
    assert!(line.contains("nothing was changed: ifb0: its driver does not support native XDP"), "{line}");
    assert_eq!(attached(&ratelimit), ["br0"]);
    assert_eq!(ratelimit.json("status")["interfaces"][0]["mode"], "generic");
    // With the port instead of the bridge, nothing would limit what arrives on the other one.
    folder.write(&file("[\"br0\", \"eth0\"]"));
    let line = daemon.line();
    let below = "it is below br0, and packets through both would be charged twice; without br0, packets that arrive on ifb0 would not be limited";
    assert!(line.ends_with(&format!("; eth0 is not attached: {below}")), "{line}");
    assert_eq!(attached(&ratelimit), ["br0"]);
    let status = ratelimit.ok("status");
    assert!(status.contains(&format!(" lists, is not attached: {below}\n")), "{status}");
    let above = "it is above eth0, and packets through both would be charged twice";
    for _ in 0..2 {
        sandbox.ip("link set ifb0 nomaster");
        let line = daemon.line();
        let expected =
            format!("ratelimit: eth0: no other interface keeps it off any more, attached; br0 detached: {above}");
        assert_eq!(line, expected);
        assert_eq!(attached(&ratelimit), ["eth0"]);
        sandbox.ip("link set ifb0 master br0");
        let line = daemon.line();
        assert!(line.starts_with("ratelimit: br0: no other interface keeps it off any more, attached; "), "{line}");
        assert!(line.contains(&format!("; eth0 detached: {below}")), "{line}");
        assert_eq!(attached(&ratelimit), ["br0"]);
    }
    sandbox.ip("link set ifb0 nomaster");
    assert!(daemon.line().ends_with(&format!("; br0 detached: {above}")));
    // And back.
    folder.write(&file("[\"br0\"]"));
    let line = daemon.line();
    assert!(line.contains("; attached to br0") && line.ends_with("; detached from eth0"), "{line}");
    // What a command has attached stays.
    daemon.end();
    ratelimit.ok("detach --all");
    ratelimit.ok("attach br0 --mode generic");
    folder.write("interfaces = [\"eth0\"]\n[default]\npackets = \"10/d\"\n");
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    let line = daemon.line();
    let why = "eth0 is not attached: it is below br0, which a command has attached, and packets through both would be charged twice";
    assert!(line.contains(why), "{line}");
    assert_eq!(attached(&ratelimit), ["br0"]);
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn a_port_that_joins_takes_no_bridge_off_whose_other_ports_are_unlisted() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    bridged(&sandbox);
    folder.write(
        "interfaces = [\"br0\", \"vnet0\"]\n[interface.br0]\nmode = \"generic\"\n[default]\npackets = \"10/d\"\nburst = 100\n",
    );
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    assert!(daemon.line().contains("; attached to br0"));
    sandbox.add_link("vnet0", "far0");
    assert_eq!(daemon.line(), "ratelimit: vnet0: appeared, attached");
    sandbox.ip("link set vnet0 master br0");
    let why = "it is below br0, and packets through both would be charged twice; without br0, packets that arrive on eth0 would not be limited";
    assert_eq!(daemon.line(), format!("ratelimit: vnet0: detached: {why}"));
    assert_eq!(attached(&ratelimit), ["br0"]);
    Flood::of(Frame::udp(PEER_IPV4, 9)).send(&sandbox, 300);
    assert_eq!(counted(&ratelimit), [100, 200]);
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn what_was_left_off_is_tried_again_after_a_failure_and_strangers_that_move_change_nothing() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    bridged(&sandbox);
    sandbox.add_link("vnet0", "far0");
    sandbox.ip("link set vnet0 master br0");
    ratelimit.ok("attach vnet0 --pins /sys/fs/bpf/other");
    folder.write(
        "interfaces = [\"br0\", \"vnet0\"]\n[interface.br0]\nmode = \"generic\"\n[default]\npackets = \"10/d\"\n",
    );
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    let line = daemon.line();
    let is_left_off = line.contains("; vnet0 is not attached: it is below br0");
    assert!(line.contains("; attached to br0;") && is_left_off, "{line}");
    sandbox.ip("link set eth0 nomaster");
    let line = daemon.line();
    let begin = "ratelimit: vnet0: no other interface keeps it off any more, but not limited: vnet0 ";
    assert!(line.starts_with(begin), "{line}");
    // The bridge stays, and the failure is not told again.
    assert_eq!(attached(&ratelimit), ["br0"]);
    sandbox.ip("link add br9 type bridge");
    sandbox.ip("link set eth0 master br9");
    ratelimit.ok("detach --all --pins /sys/fs/bpf/other");
    let line = daemon.line();
    assert!(line.starts_with("ratelimit: vnet0: no other interface keeps it off any more, attached; br0 "), "{line}");
    assert_eq!(attached(&ratelimit), ["vnet0"]);
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn doctor_says_which_of_two_interfaces_to_keep() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    sandbox.ip("link add br0 type bridge");
    ratelimit.ok("attach eth0");
    ratelimit.ok("attach br0 --mode generic");
    // Now both are on one path.
    sandbox.ip("link set eth0 master br0");
    let all = ratelimit.run("doctor").stdout;
    assert!(all.contains("warning  br0, interface: br0 is above eth0, and both are attached\n"), "{all}");
    assert!(all.contains("warning  eth0, interface: eth0 is below br0, and both are attached\n"), "{all}");
    assert!(all.contains("ratelimit detach br0"), "{all}");
    ratelimit.ok("detach br0");
    let all = ratelimit.run("doctor br0 eth0").stdout;
    assert!(all.contains("note     br0, interface: not attached, but eth0 below it is\n"), "{all}");
    assert!(!all.contains("ratelimit attach br0"), "{all}");
    ratelimit.ok("detach --all");
}

#[test]
fn pins_elsewhere_are_known_as_own_and_covered_pins_are_said() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    let place = Folder::new();
    let mount = place.file().with_file_name("bpf");
    fs::create_dir(&mount).unwrap();
    let run = |words: &[&str]| assert!(sandbox.output(Command::new(words[0]).args(&words[1..])).status.success());
    let shown = mount.display().to_string();
    run(&["mount", "-t", "bpf", "-o", "mode=0700", "bpf", &shown]);
    let pins = format!("{shown}/own");
    folder.write("interfaces = [\"eth0\"]\n[default]\npackets = \"10/d\"\n");
    let file = folder.file().display().to_string();
    ratelimit.ok(&format!("attach eth0 --pins {pins}"));
    let good = format!("{file}: good, with 1 interface and 1 rule\n");
    assert_eq!(ratelimit.ok(&format!("check --host {file} --pins {pins}")), good);
    // For another instance, that program is in the way.
    let output = ratelimit.run(&format!("check --host {file}"));
    let advice = format!("`ratelimit --pins {pins} detach eth0` removes it");
    assert!(output.status == 1 && output.stdout.contains(&advice), "{output:?}");

    // A BPF file system over it.
    run(&["mount", "-t", "bpf", "-o", "mode=0700", "bpf", &shown]);
    for words in ["status", "limit list", "detach --all", "deny list"] {
        let line = ratelimit.fails(&format!("{words} --pins {pins}"));
        let expected = format!(
            "ratelimit: {pins}: no instance can be seen, but eth0 has ratelimit: a file system is mounted over {shown}, and hides what was pinned there; it is empty: `umount {shown}` removes it; then try again; until then, the limits stay"
        );
        assert_eq!(line, expected, "{words}");
    }
    // Pins of others would end with it.
    run(&["mkdir", &format!("{shown}/tool")]);
    let line = ratelimit.fails(&format!("status --pins {pins}"));
    assert!(line.contains("; it holds pins of others (tool), which `umount "), "{line}");
    run(&["rmdir", &format!("{shown}/tool")]);
    let doctor = ratelimit.run(&format!("doctor --pins {pins}")).stdout;
    assert!(doctor.contains(&format!("a file system is mounted over {shown}")), "{doctor}");
    run(&["umount", &shown]);
    ratelimit.ok(&format!("detach --all --pins {pins}"));
    assert!(ratelimit.fails(&format!("status --pins {pins}")).contains("ratelimit is not attached"));
    run(&["umount", &shown]);
}
