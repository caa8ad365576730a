//! Memory of the daemon.

use std::{fmt::Write as _, fs};

use ratelimit_tests::{Daemon, Flood, Folder, Frame, PEER_IPV4, Ratelimit, Sandbox};

/// Maximum in kilobytes.
const MOST: u64 = 42_000;

const SOURCES: u32 = 1_000_000;

/// Returns the memory of a daemon in kilobytes: now, and the most until now. The pages of the program itself do not count,
/// since builds without optimization have far more of them.
pub(super) fn memory(daemon: &Daemon) -> (u64, u64) {
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.process.child.id())).unwrap();
    let kilobytes = |name: &str| -> u64 {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim_start_matches(':').trim().strip_suffix(" kB").unwrap().parse().unwrap()
    };
    (kilobytes("RssAnon"), kilobytes("VmHWM") - kilobytes("RssFile"))
}

#[test]
fn a_million_sources_use_no_daemon_memory_and_many_rules_only_during_a_reload() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    // Without cells each source is tracked from its first packet on.
    let file =
        format!("interfaces = [\"eth0\"]\n[settings]\nfront = false\nmax-sources = {}\n", SOURCES + SOURCES / 20);
    folder.write(&file);
    let mut daemon = Daemon::by(&sandbox, ratelimit.command(&format!("run -c {}", folder.file().display())));
    daemon.line();
    Flood::of(Frame::udp(PEER_IPV4, 9)).sources(SOURCES).send(&sandbox, u64::from(SOURCES));
    let tracked = ratelimit.json("status")["sources"]["tracked"].as_u64().unwrap();
    assert!(tracked > u64::from(SOURCES) * 95 / 100, "{tracked}");
    ratelimit.ok("reload");
    daemon.line();
    let (_, most) = memory(&daemon);
    assert!(most < MOST, "{most} kB");

    let mut many = file;
    for n in 0..100_000 {
        let source = format!("11.{}.{}.{}", n >> 16, n >> 8 & 255, n & 255);
        writeln!(many, "[[rule]]\nsource = \"{source}\"\npolicy = \"deny\"").unwrap();
    }
    folder.write(&many);
    assert!(daemon.line().ends_with("rules: 100000 set, 0 deleted, 0 unchanged"));
    ratelimit.ok("reload");
    daemon.line();
    let (now, then) = memory(&daemon);
    assert!(now < MOST && then < 2 * MOST, "{now} kB, at most {then} kB");
    println!("kB: at most {most} with {tracked} sources; at most {then} with 100000 rules, {now} afterwards");
    daemon.end();
    ratelimit.ok("detach --all");
}
