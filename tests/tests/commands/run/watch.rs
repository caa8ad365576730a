//! Changes that the daemon notices by itself: interfaces, and files behind symbolic links.

use std::{fs, os::unix::fs::symlink, process::Command};

use aya::{maps::loaded_maps, programs::loaded_programs};
use ratelimit_tests::{Daemon, Flood, Folder, Frame, PEER_IPV4, Ratelimit, Sandbox, Tun, wait_until};

use crate::run::limits;

#[test]
fn a_recreated_interface_is_attached_again() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    let make = |number: u32| sandbox.ip(&format!("link add wan{number} type veth peer name far{number}"));
    let delete = |number: u32| sandbox.ip(&format!("link del wan{number}"));
    (0..3).for_each(|number| drop(make(number)));
    folder.write("interfaces = [\"eth0\", \"wan0\", \"wan1\", \"wan2\"]\n[default]\npackets = \"10/d\"\n");
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    let is_limited = |number: u32| sandbox.ip(&format!("link show wan{number}")).contains("xdp");
    // The program is gone, even if the interface is back.
    delete(0);
    delete(1);
    make(1);
    assert_eq!(daemon.line(), "ratelimit: wan1: back again, attached");
    assert!(is_limited(1));
    assert!(ratelimit.ok("metrics").contains("{interface=\"wan0\",mode=\"gone\","));
    make(0);
    assert_eq!(daemon.line(), "ratelimit: wan0: back again, attached");
    // An interface that a command detached stays detached.
    ratelimit.ok("detach wan2");
    delete(2);
    make(2);
    delete(0);
    make(0);
    assert_eq!(daemon.line(), "ratelimit: wan0: back again, attached");
    assert!(is_limited(0) && !is_limited(2));
    // An interface that refuses the program is tried once.
    delete(0);
    sandbox.ip("link add wan0 type ifb");
    let line = daemon.line();
    assert!(line.starts_with("ratelimit: wan0: back again, but not limited: wan0: its driver does not"), "{line}");
    assert!(ratelimit.ok("metrics").contains("ratelimit_config_last_reload_successful 0\n"));
    make(3);
    sandbox.ip("link set wan0 up");
    delete(1);
    make(1);
    assert_eq!(daemon.line(), "ratelimit: wan1: back again, attached");
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn interfaces_that_are_not_in_the_file_cost_the_daemon_no_list() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    sandbox.ip("link add wan0 type veth peer name far0");
    folder.write("interfaces = [\"eth0\", \"wan0\"]\n[default]\npackets = \"10/d\"\n");
    // strace prints each request of the daemon to rtnetlink. With -D, signals reach the daemon.
    let inner = ratelimit.command(&format!("run -c {}", folder.file().display()));
    let mut strace = Command::new("strace");
    strace.args(["-D", "-f", "-qq", "-e", "trace=sendto", "-o"]).arg(folder.file().with_file_name("trace"));
    strace.arg(inner.get_program()).args(inner.get_args());
    let mut daemon = Daemon::by(&sandbox, strace);
    daemon.line();
    let requests = || {
        let trace = fs::read_to_string(folder.file().with_file_name("trace")).unwrap();
        trace.lines().filter(|line| line.contains("RTM_GETLINK")).count()
    };
    // The daemon reads events in order, so it has read those before the return of this interface.
    let mut lists_of_return = || {
        let before = requests();
        sandbox.ip("link del wan0");
        sandbox.ip("link add wan0 type veth peer name far0");
        assert_eq!(daemon.line(), "ratelimit: wan0: back again, attached");
        requests() - before
    };
    let alone = (0..3).map(|_| lists_of_return()).max().unwrap();
    assert!(alone > 0);
    let before = requests();
    for number in 0..20 {
        sandbox.ip(&format!("link add other{number} type veth peer name around{number}"));
        sandbox.ip(&format!("link del other{number}"));
    }
    lists_of_return();
    let with_others = requests() - before;
    assert!(with_others <= alone, "{with_others} lists instead of {alone}");
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn an_interface_that_returns_with_another_link_type_gets_the_program_for_it() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    let make = || sandbox.ip("link add wan0 type veth peer name far0");
    make();
    folder.write(
        "interfaces = [\"eth0\", \"wan0\"]\n[interface.wan0]\nmode = \"generic\"\n[default]\npackets = \"10/d\"\n",
    );
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    let has_raw = || sandbox.pins().iter().any(|pin| pin.ends_with("program_raw"));
    for _ in 0..2 {
        assert!(!has_raw());
        sandbox.ip("link del wan0");
        let tun = Tun::new(&sandbox, "wan0");
        assert_eq!(daemon.line(), "ratelimit: wan0: back again, attached");
        assert!(has_raw());
        let before = ratelimit.json("status")["reasons"]["over-packets"]["packets"].as_u64().unwrap();
        // The IP packet of a frame. The first loop leaves no token.
        tun.receive(&Frame::udp(PEER_IPV4, 9).bytes()[14..], 100);
        let after = ratelimit.json("status")["reasons"]["over-packets"]["packets"].as_u64().unwrap();
        assert!(after - before >= 90, "{before}, {after}");
        sandbox.ip("link del wan0");
        make();
        assert!(
            daemon.line().starts_with("ratelimit: wan0: back again, attached; wan0: joined packets count as one: ")
        );
    }
    // An interface of a type that no program can read is not attached.
    sandbox.ip("link del wan0");
    sandbox.ip("link add wan0 type vxlan dstport 4790 gpe external");
    let line = daemon.line();
    assert!(line.contains("wan0: back again, but not limited: wan0: ratelimit cannot read packets of"), "{line}");
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn the_limit_applies_on_a_recreated_interface() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    folder.write("interfaces = [\"eth0\"]\n[default]\npackets = \"10/d\"\n");
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    sandbox.renew_link();
    assert_eq!(daemon.line(), "ratelimit: eth0: back again, attached");
    Flood::of(Frame::udp(PEER_IPV4, 9)).send(&sandbox, 100);
    assert_eq!(ratelimit.json("status")["dropped"]["packets"], 90);
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn changes_of_a_file_behind_symbolic_links_are_noticed() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    // Kubernetes mounts a ConfigMap in this way.
    let place = folder.file().parent().unwrap().to_owned();
    let version = |name: &str, rate: &str| {
        fs::create_dir(place.join(name)).unwrap();
        let text = format!("interfaces = [\"eth0\"]\n[default]\npackets = \"{rate}\"\n");
        fs::write(place.join(name).join("ratelimit.toml"), text).unwrap();
        symlink(name, place.join("..fresh")).unwrap();
        fs::rename(place.join("..fresh"), place.join("..data")).unwrap();
    };
    version("..1", "5/s");
    symlink("..data/ratelimit.toml", folder.file()).unwrap();
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    version("..2", "6/s");
    let line = daemon.line();
    assert!(line.ends_with(": reloaded, rules: 1 set, 0 deleted, 0 unchanged; replaced default (was 5/s)"), "{line}");
    assert_eq!(limits(&ratelimit), ["default any 6/s config"]);
    daemon.end();
    ratelimit.ok("detach --all");
}

/// Waits until this program and its maps no longer exist.
pub(crate) fn wait_until_freed(program: u32, maps: &[u32]) {
    wait_until(&format!("the kernel frees program {program} and the maps {maps:?}"), || {
        !loaded_programs().flatten().any(|loaded| loaded.id() == program)
            && !loaded_maps().flatten().any(|map| maps.contains(&map.id()))
    });
}

/// Returns the program on eth0 and its maps.
pub(crate) fn loaded(ratelimit: &Ratelimit<'_>) -> (u32, Vec<u32>) {
    let id = ratelimit.json("status")["interfaces"][0]["program_id"].as_u64().unwrap() as u32;
    let program = loaded_programs().flatten().find(|program| program.id() == id).unwrap();
    (id, program.map_ids().unwrap().unwrap())
}

#[test]
fn the_daemon_keeps_nothing_of_a_detached_instance() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    folder.write("interfaces = [\"eth0\"]\n");
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    let (program, maps) = loaded(&ratelimit);
    ratelimit.ok("detach --all");
    wait_until_freed(program, &maps);
    daemon.end();
}
