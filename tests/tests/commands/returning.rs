//! What the daemon notices by itself: interfaces that come back, files behind links, and that nothing is left.

use std::{
    fs,
    os::unix::fs::symlink,
    time::{Duration, Instant},
};

use aya::{maps::loaded_maps, programs::loaded_programs};
use ratelimit_tests::{Daemon, Flood, Folder, Frame, PEER_IPV4, Ratelimit, Sandbox};

use crate::daemon::limits;

#[test]
fn an_interface_that_comes_back_is_limited_again() {
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
    // That one is gone shows, also when another one has come back.
    delete(0);
    delete(1);
    make(1);
    assert_eq!(daemon.line(), "ratelimit: wan1: there again, attached");
    assert!(is_limited(1));
    assert!(ratelimit.ok("metrics").contains("{interface=\"wan0\",mode=\"gone\","));
    make(0);
    assert_eq!(daemon.line(), "ratelimit: wan0: there again, attached");
    // One that a command has detached stays so.
    ratelimit.ok("detach wan2");
    delete(2);
    make(2);
    delete(0);
    make(0);
    assert_eq!(daemon.line(), "ratelimit: wan0: there again, attached");
    assert!(is_limited(0) && !is_limited(2));
    // One that refuses is tried once, whatever else happens.
    delete(0);
    sandbox.ip("link add wan0 type ifb");
    let line = daemon.line();
    assert!(line.starts_with("ratelimit: wan0: there again, but not limited: wan0: its driver does not"), "{line}");
    assert!(ratelimit.ok("metrics").contains("ratelimit_config_last_reload_successful 0\n"));
    make(3);
    sandbox.ip("link set wan0 up");
    delete(1);
    make(1);
    assert_eq!(daemon.line(), "ratelimit: wan1: there again, attached");
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn the_limit_holds_on_the_wire_that_came_back() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    folder.write("interfaces = [\"eth0\"]\n[default]\npackets = \"10/d\"\n");
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    sandbox.renew_link();
    assert_eq!(daemon.line(), "ratelimit: eth0: there again, attached");
    Flood::of(Frame::udp(PEER_IPV4, 9)).send(&sandbox, 100);
    assert_eq!(ratelimit.json("status")["dropped"]["packets"], 90);
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn a_file_behind_links_is_followed() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    // As Kubernetes mounts a ConfigMap.
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
    assert!(line.ends_with(": read again, rules: 1 set, 0 deleted, 0 unchanged"), "{line}");
    assert_eq!(limits(&ratelimit), ["default any 6/s config"]);
    daemon.end();
    ratelimit.ok("detach --all");
}

/// Waits until neither this program nor any of its maps is there any more; not longer than the kernel takes.
pub(super) fn wait_until_freed(program: u32, maps: &[u32]) {
    let deadline = Instant::now() + Duration::from_secs(20);
    let is_there = || {
        loaded_programs().flatten().any(|loaded| loaded.id() == program)
            || loaded_maps().flatten().any(|map| maps.contains(&map.id()))
    };
    while is_there() {
        assert!(Instant::now() < deadline, "the kernel still has program {program} or one of the maps {maps:?}");
        std::thread::yield_now();
    }
}

/// The program on eth0 with its maps.
pub(super) fn loaded(ratelimit: &Ratelimit<'_>) -> (u32, Vec<u32>) {
    let id = ratelimit.json("status")["interfaces"][0]["program_id"].as_u64().unwrap() as u32;
    let program = loaded_programs().flatten().find(|program| program.id() == id).unwrap();
    (id, program.map_ids().unwrap().unwrap())
}

#[test]
fn a_daemon_holds_nothing_of_what_was_detached() {
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
