//! Interface checks: driver, mode, queues, frame size, and other programs.

use ratelimit_tests::{Daemon, Folder, Ratelimit, Sandbox, Sink, Tun, VICTIM_LINK, kernel_at_least, online_cpus};

use super::{about, paragraphs};

#[test]
fn a_missing_interface_is_named_with_the_existing_ones() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let line =
        "error eth7, interface: no such interface: this network namespace has lo, eth0\n`ratelimit attach` would fail.";
    assert_eq!(about(&ratelimit, "eth7", "eth7, interface"), line);
    let note = "note interface: no interface was examined\nNo interface was named, and none here is attached. Most problems depend on the interface.\nfix: ratelimit doctor IFACE";
    assert_eq!(about(&ratelimit, "", "interface"), note);
}

#[test]
fn an_interface_that_is_down_or_without_carrier_is_reported() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    sandbox.ip("link add wan0 type veth peer name far0");
    let down = "warning wan0, link: down\nNo packet arrives.\nfix: ip link set wan0 up";
    assert_eq!(about(&ratelimit, "wan0", "wan0, link"), down);
    sandbox.ip("link set wan0 up");
    let alone = "warning wan0, link: up, but without a carrier\nNo packet arrives. The cable is missing, or the other end is down.\nfix: ip -details link show wan0";
    assert_eq!(about(&ratelimit, "wan0", "wan0, link"), alone);
    sandbox.ip("link set far0 up");
    assert_eq!(about(&ratelimit, "wan0", "wan0, link"), "ok wan0, link: up");
}

#[test]
fn generic_mode_is_reported_when_the_driver_supports_native() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --mode generic");
    let found = about(&ratelimit, "", "eth0, native-xdp");
    let what = if kernel_at_least(6, 3) {
        "attached in generic mode, although its driver (veth) has native XDP"
    } else {
        "attached in generic mode; before Linux 6.3, the kernel does not tell whether the driver (veth) has native XDP"
    };
    let expected = format!(
        "warning eth0, native-xdp: {what}\nIn generic mode, the kernel creates a socket buffer for each packet before the program sees it. So a flood costs far more.\nfix: ratelimit detach eth0 && {{ ratelimit attach eth0 || ratelimit attach eth0 --mode generic; }}"
    );
    assert_eq!(found, expected);
    // The suggested command solves the problem.
    ratelimit.ok("detach eth0");
    ratelimit.ok("attach eth0");
    assert_eq!(about(&ratelimit, "", "eth0, native-xdp"), "ok eth0, native-xdp: attached, native (driver veth)");
    ratelimit.ok("detach --all");
}

#[test]
fn a_driver_without_native_xdp_is_reported_before_the_attach() {
    if !kernel_at_least(6, 3) {
        println!("skipped: kernels before 6.3 do not report this");
        return;
    }
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    sandbox.ip("link add ifb0 type ifb");
    let expected = "warning ifb0, native-xdp: its driver (ifb) has no native XDP\n`ratelimit attach` needs --mode generic. In generic mode, the kernel creates a socket buffer for each packet before the program sees it. So a flood costs far more.\nfix: ratelimit attach ifb0 --mode generic";
    assert_eq!(about(&ratelimit, "ifb0", "ifb0, native-xdp"), expected);
    assert!(ratelimit.fails("attach ifb0").contains("does not support native XDP"));
    ratelimit.ok("attach ifb0 --mode generic");
    let found = about(&ratelimit, "", "ifb0, native-xdp");
    assert!(
        found.starts_with("note ifb0, native-xdp: attached in generic mode: its driver (ifb) has no native XDP\n"),
        "{found}"
    );
    // The other interface is not protected.
    let expected = "note eth0, interface: ratelimit is not attached here\nOther interfaces are attached. Packets that arrive here are not limited.\nfix: ratelimit attach eth0";
    assert_eq!(about(&ratelimit, "eth0", "eth0, interface"), expected);
    ratelimit.ok("detach --all");
}

#[test]
fn fewer_queues_than_cpus_are_reported_when_more_are_possible() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let cpus = online_cpus();
    if cpus == 1 {
        return println!("skipped: this machine has one CPU");
    }
    // By default the kernel creates a queue per possible CPU and uses one.
    sandbox.ip("link add wan0 type veth peer name far0");
    let why = format!("One CPU empties each queue. So at most 1 of {cpus} CPUs handle a flood.");
    let expected =
        format!("warning wan0, queues: 1 receive queue for {cpus} CPUs\n{why}\nfix: ethtool -L wan0 rx {cpus}");
    assert_eq!(about(&ratelimit, "wan0", "wan0, queues"), expected);
    sandbox.ip("link add wan1 numtxqueues 1 numrxqueues 1 type veth peer name far1 numtxqueues 1 numrxqueues 1");
    let expected =
        format!("note wan1, queues: 1 receive queue for {cpus} CPUs, and the driver (veth) supports no more\n{why}");
    assert_eq!(about(&ratelimit, "wan1", "wan1, queues"), expected);
    assert_eq!(about(&ratelimit, "lo", "lo, queues"), "ok lo, queues: the driver reports none");
}

#[test]
fn an_mtu_that_needs_several_buffers_is_reported_for_single_buffer_drivers() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    sandbox.ip("tuntap add tap0 mode tap");
    let all = paragraphs(&ratelimit, "tap0");
    assert!(all.iter().all(|paragraph| !paragraph.contains("mtu:")), "{all:#?}");
    sandbox.ip("link set tap0 mtu 9000");
    sandbox.ip("link set eth0 mtu 9000");
    let (on_tap, on_veth) = (about(&ratelimit, "tap0", "tap0, mtu"), about(&ratelimit, "eth0", "eth0, mtu"));
    let why =
        "Most drivers without this support refuse XDP above about 3,500 bytes. Then attaching in native mode fails.";
    if kernel_at_least(6, 3) {
        let what = "its MTU is 9000, and its driver (tun) does not support frames of several buffers with XDP";
        assert_eq!(on_tap, format!("warning tap0, mtu: {what}\n{why}\nfix: ip link set tap0 mtu 1500"));
        assert_eq!(on_veth, "ok eth0, mtu: 9000, and its driver supports frames of several buffers");
    } else {
        let what = "its MTU is 9000; before Linux 6.3, the kernel does not tell whether the driver (tun) supports that with XDP";
        assert_eq!(on_tap, format!("note tap0, mtu: {what}\n{why}\nfix: ip link set tap0 mtu 1500"));
    }
}

#[test]
fn the_link_type_is_checked() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let (_tun, other) = (Tun::new(&sandbox, "tun0"), Tun::down(&sandbox, "ib0"));
    other.set_link_type(32);
    assert!(paragraphs(&ratelimit, "eth0").iter().all(|paragraph| !paragraph.contains("link-type")));
    let raw = "ok tun0, link-type: packets begin with the IP header (65534, tun)";
    assert_eq!(about(&ratelimit, "tun0", "tun0, link-type"), raw);
    ratelimit.ok("attach eth0 tun0 --mode generic");
    assert_eq!(about(&ratelimit, "", "tun0, link-type"), raw);
    let refused = "error ib0, link-type: ratelimit cannot read packets of this link type (32, tun)\n`ratelimit attach` refuses this interface.";
    assert_eq!(about(&ratelimit, "ib0", "ib0, link-type"), refused);
    // No other finding advises an attach.
    assert!(paragraphs(&ratelimit, "ib0").iter().all(|paragraph| !paragraph.contains("ratelimit attach ib0")));
    // An interface can change its type while it is attached.
    sandbox.ip("link set ib0 down");
    other.set_link_type(65_534);
    ratelimit.ok("attach ib0 --mode generic");
    other.set_link_type(32);
    let attached = "error ib0, link-type: attached, but ratelimit cannot read packets of this link type (32, tun)\nIt had another type, or an earlier version has attached it. Its packets count for wrong sources, or pass without a limit.\nfix: ratelimit detach ib0";
    assert_eq!(about(&ratelimit, "", "ib0, link-type"), attached);
    other.set_link_type(1);
    ratelimit.ok("limit set default --packets 5/s --service udp/53");
    other.set_link_type(65_534);
    let wrong = "error ib0, link-type: attached with the wrong program for its link type (65534, tun)\nThe program expects Ethernet headers, which this interface does not have. No packet is limited.\nfix: ratelimit attach ib0";
    assert_eq!(about(&ratelimit, "", "ib0, link-type"), wrong);
    ratelimit.ok("attach ib0 --mode generic");
    assert_eq!(
        about(&ratelimit, "", "ib0, link-type"),
        "ok ib0, link-type: packets begin with the IP header (65534, tun)"
    );
    ratelimit.ok("detach --all");
}

#[test]
fn another_xdp_program_is_named() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let sink = Sink::passing(&sandbox, VICTIM_LINK);
    let text = about(&ratelimit, "eth0", "eth0, other-program");
    let expected =
        format!("error eth0, other-program: has the XDP program \"pass\" (id {}, native)\n", sink.program_id());
    assert!(text.starts_with(&expected) && text.ends_with("\nfix: ratelimit attach eth0 --replace"), "{text}");
    // A program that another test starts meanwhile is a copy of this process for a moment, and holds it too.
    // Its name may be cut.
    let own: String = std::env::current_exe().unwrap().to_str().unwrap().chars().take(30).collect();
    assert!(text.contains(" Without it: process ") && text.contains(&format!(" ({own}")), "{text}");
    ratelimit.ok("attach eth0 --replace");
    assert_eq!(about(&ratelimit, "eth0", "eth0, native-xdp"), "ok eth0, native-xdp: attached, native (driver veth)");
    ratelimit.ok("detach --all");
}

#[test]
fn devices_that_join_packets_for_the_program_are_named() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    // The other end is in another network namespace.
    let hidden =
        "the other end of eth0, which cannot be seen from this network namespace, may send several packets as one";
    let text = ratelimit.ok("attach eth0 --mode generic");
    assert!(text.contains(&format!("\neth0: joined packets count as one: {hidden}")), "{text}");
    let text = about(&ratelimit, "eth0", "eth0, offloads");
    assert!(text.starts_with(&format!("note eth0, offloads: {hidden}")), "{text}");
    ratelimit.ok("detach --all");
    let folder = Folder::new();
    folder.write("interfaces = [\"eth0\"]\n[interface.eth0]\nmode = \"generic\"\n[default]\npackets = \"1000/s\"\n");
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    let line = daemon.line();
    assert!(line.contains(&format!("attached to eth0; eth0: joined packets count as one: {hidden}")), "{line}");
    daemon.end();
    ratelimit.ok("detach --all");
    assert!(!ratelimit.ok("attach eth0 --mode native").contains("joined"));
    ratelimit.ok("detach --all");

    sandbox.ip("link add br0 type bridge");
    sandbox.ip("link add port0 type veth peer name far0");
    sandbox.ip("link set port0 master br0");
    sandbox.ip("tuntap add dev tap0 mode tap vnet_hdr");
    sandbox.ip("tuntap add dev tap1 mode tap");
    ["tap0", "tap1"].iter().for_each(|port| drop(sandbox.ip(&format!("link set {port} master br0"))));
    let text = ratelimit.ok("attach br0 --mode generic");
    let fix = "ethtool -K far0 tx-tcp-segmentation off tx-tcp6-segmentation off tx-udp-segmentation off tx-sctp-segmentation off";
    for expected in [
        &*format!("\nbr0: joined packets count as one: far0 sends several packets as one: `{fix}`\n"),
        "\nbr0: joined packets count as one: the program that has opened tap0 may write joined packets. ",
    ] {
        assert!(text.contains(expected), "{text}");
    }
    // Its packets come without a header that could say that they are joined.
    assert!(!text.contains("tap1"), "{text}");
    let all = paragraphs(&ratelimit, "br0");
    let warning = "warning br0, offloads: far0 sends several packets as one\n";
    assert!(
        all.iter().any(|found| found.starts_with(warning) && found.ends_with(&format!("\nfix: {fix}"))),
        "{all:#?}"
    );
    // A bridge whose ports join nothing.
    sandbox.ip("link set port0 nomaster");
    sandbox.ip("link del tap0");
    assert!(!ratelimit.ok("attach br0").contains("joined"));
    ratelimit.ok("detach --all");
}

#[test]
fn a_deleted_interface_is_reported() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    sandbox.ip("link add wan0 type veth peer name far0");
    ratelimit.ok("attach eth0 wan0");
    sandbox.ip("link del wan0");
    let expected = "warning wan0, instance: no longer attached\nThe interface was deleted. If it comes back, nothing is limited there before the next attach.\nfix: ratelimit detach wan0";
    assert_eq!(about(&ratelimit, "", "wan0, instance"), expected);
    sandbox.ip("link add wan0 type veth peer name far0");
    let expected = "error wan0, instance: no longer attached\nThe interface was created again, or its program was replaced. Nothing is limited there.\nfix: ratelimit attach wan0";
    assert_eq!(about(&ratelimit, "", "wan0, instance"), expected);
    let status = ratelimit.ok("status");
    assert!(
        status.contains("wan0: no longer attached, because the interface was deleted or its program replaced: run ")
    );
    // A refused attach leaves the finding, whose advice depends on what is there.
    let other = Sink::passing(&sandbox, "wan0");
    ratelimit.fails("attach wan0");
    assert_eq!(about(&ratelimit, "", "wan0, instance"), format!("{expected} --replace"));
    ratelimit.ok("detach eth0");
    let status = ratelimit.ok("status");
    assert!(
        status.ends_with("\nNothing is limited now, because no interface carries the program any more.\n"),
        "{status}"
    );
    drop(other);
    ratelimit.ok("attach wan0");
    let all = paragraphs(&ratelimit, "");
    assert!(all.iter().all(|paragraph| !paragraph.contains("wan0, instance")), "{all:#?}");
    ratelimit.ok("detach --all");
}

#[test]
fn answers_that_a_veth_loses_are_said_and_the_command_ends_it() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    sandbox.ip("link add wan0 type veth peer name far0");
    for link in ["wan0", "far0"] {
        sandbox.ip(&format!("link set {link} up"));
    }
    let lost = "answers are lost, because far0, its other end, has neither GRO nor an XDP program";
    let limit = "limit set default --packets 5/s --over-limit reject";
    assert!(!ratelimit.ok("attach wan0").contains("answers are lost"));
    ratelimit.ok(limit);
    let warning = about(&ratelimit, "", "wan0, proofs");
    assert!(warning.starts_with(&format!("warning wan0, proofs: {lost}\n")), "{warning}");
    assert!(warning.ends_with("\nfix: ethtool -K far0 gro on"), "{warning}");
    assert!(ratelimit.ok("attach wan0").contains(&format!("\nwan0: {lost}: `ethtool -K far0 gro on`\n")));
    // A program at the other end lets it receive them.
    let other = Sink::passing(&sandbox, "far0");
    assert!(!ratelimit.ok("attach wan0").contains("answers are lost"));
    drop(other);
    ratelimit.ok("detach wan0");
    assert!(!ratelimit.ok("attach wan0 --mode generic").contains("answers are lost"));
    ratelimit.ok("detach --all");
    // Nobody here can tell about a peer in another network namespace.
    ratelimit.ok("attach eth0");
    sandbox.set_syn_cookies("2");
    let text = ratelimit.ok("set --prove tcp --unknown 1k/s");
    assert!(text.contains("eth0: answers are lost unless its other end, which cannot be seen from this"), "{text}");
    assert!(
        paragraphs(&ratelimit, "").iter().any(|paragraph| paragraph.starts_with("note eth0, proofs: answers are lost"))
    );
    ratelimit.ok("detach --all");
}
