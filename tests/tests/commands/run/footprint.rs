//! Memory and threads of the daemon.

use std::{fmt::Write as _, fs};

use ratelimit_tests::{Daemon, Flood, Folder, Frame, PEER_IPV4, Ratelimit, Sandbox, wait_until};
use rustix::process::Signal;

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
    assert!(daemon.line().contains("rules: 100000 set, 0 deleted, 0 unchanged; added 11.0.0.0 (deny), "));
    ratelimit.ok("reload");
    daemon.line();
    let (now, then) = memory(&daemon);
    assert!(now < MOST && then < 2 * MOST, "{now} kB, at most {then} kB");
    println!("kB: at most {most} with {tracked} sources; at most {then} with 100000 rules, {now} afterwards");
    daemon.end();
    ratelimit.ok("detach --all");
}

/// Returns the names of the threads of a daemon.
fn threads(daemon: &Daemon) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", daemon.process.child.id())).unwrap();
    // A thread can end meanwhile.
    let names = tasks.filter_map(|task| fs::read_to_string(task.unwrap().path().join("comm")).ok());
    names.map(|name| name.trim_end().to_owned()).collect()
}

/// Returns the number of runtimes of a daemon: each is woken by one eventfd(2).
fn runtimes(daemon: &Daemon) -> usize {
    let files = fs::read_dir(format!("/proc/{}/fd", daemon.process.child.id())).unwrap();
    let files = files.filter_map(|file| fs::read_link(file.unwrap().path()).ok());
    files.filter(|file| file.to_string_lossy() == "anon_inode:[eventfd]").count()
}

/// Waits until a daemon has the threads of these tables, beside the main one and those that have worked a moment ago. Without
/// tables, it has two at most.
#[track_caller]
fn has_threads(daemon: &Daemon, tables: &[&str]) {
    wait_until(&format!("threads for {tables:?}"), || {
        let all = threads(daemon);
        let mut of_tables: Vec<_> =
            all.iter().filter(|name| *name != "ratelimit" && *name != "tokio-rt-worker").collect();
        of_tables.sort_unstable();
        of_tables == tables && (!tables.is_empty() || all.len() <= 2)
    });
}

#[test]
fn a_daemon_has_two_threads_and_those_of_the_tables_in_its_file() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    let key = folder.add("key", "secret");
    let default = "[default]\npackets = \"5/s\"\n";
    // Nothing answers at these addresses.
    let tables = [
        ("crowdsec", format!("[crowdsec]\nkey-file = \"{}\"\nurl = \"http://127.0.0.1:1\"\n", key.display())),
        ("fleet", "[fleet]\nengine = \"redis://127.0.0.1:1\"\n".to_owned()),
        ("lists", "[[list]]\nname = \"bad\"\nurl = \"http://127.0.0.1:1/bad\"\n".to_owned()),
        ("metrics", "[metrics]\nlisten = \"127.0.0.1:9\"\n".to_owned()),
        ("stops", format!("[stops]\nsocket = \"{}\"\n", key.with_file_name("stops").display())),
        ("view", format!("[view]\nsocket = \"{}\"\n", key.with_file_name("view").display())),
    ];
    let write = |names: &[&str]| {
        let tables = tables.iter().filter(|(name, _)| names.contains(name)).map(|(_, text)| text.as_str());
        let text: String = ["interfaces = [\"eth0\"]\n", default].into_iter().chain(tables).collect();
        folder.write(&text);
    };
    write(&[]);
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    has_threads(&daemon, &[]);
    assert_eq!(runtimes(&daemon), 1);
    for (name, _) in &tables {
        write(&[name]);
        has_threads(&daemon, &[name]);
    }
    let all: Vec<&str> = tables.iter().map(|(name, _)| *name).collect();
    write(&all);
    has_threads(&daemon, &all);
    write(&[]);
    has_threads(&daemon, &[]);
    wait_until("one runtime", || runtimes(&daemon) == 1);
    daemon.process.signal(Signal::TERM);
    while daemon.line() != "ratelimit: ended; limits stay in force without a daemon" {}
    assert!(daemon.process.wait().status.success());
    ratelimit.ok("detach --all");
}
