//! Other tools with XDP programs: what `attach` says about their programs, and how both act.

use std::{fs, path::Path, process, process::Command};

use ratelimit_tests::{Flood, Frame, Ratelimit, Sandbox, Sink, VICTIM_LINK, unpacked};
use serde_json::json;

/// Runs xdp-filter, with its objects.
fn xdp_filter(sandbox: &Sandbox, words: &str) -> String {
    let loader = unpacked::program("xdp-tools", "xdp-loader", "status");
    let mut command = Command::new(Path::new(loader.get_program()).with_file_name("xdp-filter"));
    for (name, value) in loader.get_envs().filter_map(|(name, value)| Some((name, value?))) {
        command.env(name, value);
        let objects = Path::new(value).join("bpf");
        if name == "LD_LIBRARY_PATH" && objects.is_absolute() {
            command.env("LIBXDP_OBJECT_PATH", objects);
        }
    }
    let output = sandbox.output(command.args(words.split_whitespace()));
    // It never reports success for a status.
    assert!(output.status.success() || words == "status", "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the id of the program on an interface.
fn id_on(sandbox: &Sandbox, link: &str) -> u32 {
    let shown = sandbox.ip(&format!("link show {link}"));
    let mut words = shown.split_whitespace().skip_while(|word| *word != "id");
    words.nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_filter_of_xdp_tools_is_explained_and_acts_below_a_bridge_with_ratelimit() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    xdp_filter(&sandbox, "load -m native -f udp eth0");
    xdp_filter(&sandbox, "port 7 -m dst -p udp");
    let id = id_on(&sandbox, VICTIM_LINK);
    let removal = "ip link set dev eth0 xdpdrv off";
    let expected = format!(
        "ratelimit: eth0 already has the XDP program \"xdpfilt_alw_udp\" (id {id}, native), pinned at \
         /sys/fs/bpf/xdp-filter/programs/eth0/xdpfilt_alw_udp: `{removal}` removes it, and `ratelimit attach --replace` \
         puts ratelimit in its place"
    );
    assert_eq!(ratelimit.fails("attach eth0"), expected);

    // Above the interface, there is place for another program.
    sandbox.ip("link add br0 type bridge");
    sandbox.ip("link set dev eth0 master br0");
    sandbox.ip("link set dev br0 up");
    ratelimit.ok("attach br0 --mode generic --packets 10/h --burst 10 --front off");
    let send = |last, port| {
        Flood::of(Frame::udp([10, 9, 0, last], port)).send(&sandbox, 30);
    };
    send(66, 7);
    send(67, 9);
    let sources = ratelimit.json("sources");
    let rows = sources.as_array().unwrap();
    let of = |address: &str| rows.iter().find(|row| row["source"] == address);
    assert!(of("10.9.0.66").is_none(), "{sources}");
    let limited = of("10.9.0.67").unwrap();
    assert_eq!([&limited["passed"]["packets"], &limited["dropped"]["packets"]], [&json!(10), &json!(20)]);
    let status = xdp_filter(&sandbox, "status");
    let dropped = status.lines().find(|line| line.trim_start().starts_with("XDP_DROP")).unwrap();
    assert_eq!(dropped.split_whitespace().nth(1), Some("30"), "{status}");
    ratelimit.ok("detach --all");
    assert_eq!(id_on(&sandbox, VICTIM_LINK), id);

    // The advice works.
    sandbox.ip(removal.strip_prefix("ip ").unwrap());
    ratelimit.ok("attach eth0");
    ratelimit.ok("detach --all");
    sandbox.leave_pins();
}

#[test]
fn what_holds_another_program_is_named_with_what_removes_it() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let mut sink = Sink::passing(&sandbox, VICTIM_LINK);
    let id = sink.program_id();
    let removal = |line: String| line.split_once(&format!(" (id {id}, native): ")).unwrap().1.to_owned();
    let line = removal(ratelimit.fails("attach eth0"));
    assert!(
        line.starts_with(&format!("process {} (", process::id())) && line.contains(" holds it until it ends, "),
        "{line}"
    );

    // The folder of a dispatcher, as libxdp makes it. Its stubs need a kernel with `freplace`.
    let mut member = Sink::at_the_peer(&sandbox);
    let index: u32 = sandbox.victim(|| index_of(VICTIM_LINK));
    let folder = format!("/sys/fs/bpf/xdp/dispatch-{index}-{id}");
    sandbox.victim(|| {
        fs::create_dir_all(&folder).unwrap();
        member.pin_program(format!("{folder}/prog0-prog"));
    });
    let expected = format!(
        "ratelimit: eth0 already has the dispatcher of libxdp (id {id}, native), which runs \"pass\" (id {}): \
         `xdp-loader unload eth0 --all` removes it with all its programs, and `ratelimit attach \
         --replace` puts ratelimit in its place",
        member.program_id()
    );
    assert_eq!(ratelimit.fails("attach eth0"), expected);
    sandbox.victim(|| fs::remove_dir_all("/sys/fs/bpf/xdp").unwrap());

    sandbox.victim(|| sink.pin("/sys/fs/bpf/held"));
    drop(sink);
    let line = removal(ratelimit.fails("attach eth0"));
    assert!(line.starts_with("`rm /sys/fs/bpf/held` removes it, "), "{line}");
    sandbox.victim(|| fs::remove_file("/sys/fs/bpf/held").unwrap());

    ratelimit.ok("attach eth0 --pins /sys/fs/bpf/other");
    let line = ratelimit.fails("attach eth0");
    let id = id_on(&sandbox, VICTIM_LINK);
    let expected = format!(
        "eth0 already has the XDP program \"ratelimit\" of another instance (id {id}, native): `ratelimit --pins \
         /sys/fs/bpf/other detach eth0` removes it, "
    );
    assert!(line.contains(&expected), "{line}");
    ratelimit.ok("detach --all --pins /sys/fs/bpf/other");
}

/// Returns the index of an interface of this namespace.
fn index_of(link: &str) -> u32 {
    let shown = Command::new("ip").args(["-oneline", "link", "show", link]).output().unwrap().stdout;
    String::from_utf8(shown).unwrap().split(':').next().unwrap().parse().unwrap()
}
