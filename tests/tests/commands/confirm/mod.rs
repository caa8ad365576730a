//! `attach --confirm` and `confirm`: an attach that undoes itself.

mod undo;

use std::{
    fs,
    io::{Read as _, Write as _},
    os::{
        fd::OwnedFd,
        unix::{net::UnixStream, process::CommandExt as _},
    },
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use ratelimit_tests::{Ratelimit, Sandbox, Sink, VICTIM_LINK, scaled, wait_until};
use rustix::{
    process::{Pid, Signal, kill_process, kill_process_group},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
};
use serde_json::json;

use crate::run::callers::{limit_files, silent};

fn is_waiting(ratelimit: &Ratelimit<'_>) -> bool {
    let output = ratelimit.run("status --json");
    output.stdout.contains("confirm_within_seconds")
}

/// Returns whether nothing of the waiter is left.
pub(super) fn is_over(sandbox: &Sandbox) -> bool {
    !sandbox.victim(|| fs::exists("/run/ratelimit.confirm/confirm.lock").unwrap())
}

/// Returns the waiting process. It has the environment of its starter.
pub(super) fn waiter(sandbox: &Sandbox) -> Pid {
    let mine = sandbox.victim(|| fs::read_link("/proc/thread-self/ns/mnt").unwrap());
    let is_waiter = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        fs::read_link(format!("/proc/{pid}/ns/mnt")).is_ok_and(|mounts| mounts == mine)
            && environment.split(|byte| *byte == 0).any(|entry| entry == b"RATELIMIT_WAITS_FOR_CONFIRM=1")
    };
    let mut numbers =
        fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Pid::from_raw(numbers.find(is_waiter).unwrap()).unwrap()
}

#[test]
fn an_unconfirmed_new_instance_is_removed_with_its_rules() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let text = ratelimit.ok("attach eth0 --packets 7/s --confirm 1s");
    assert!(text.starts_with("eth0: attached, native\ndefault: 7/s"), "{text}");
    assert!(text.ends_with("everything is undone in 1s, unless `ratelimit confirm` comes first\n"), "{text}");
    wait_until("detached", || sandbox.pins().is_empty());
    assert!(!sandbox.ip("link show eth0").contains("xdp"));
    wait_until("gone", || is_over(&sandbox));
    assert!(ratelimit.fails("status").contains("not attached"));

    // Rules that other commands set are removed as well.
    ratelimit.ok("attach eth0 --confirm 1s");
    let _ = ratelimit.run("deny add 10.0.0.1");
    wait_until("detached", || sandbox.pins().is_empty());
    wait_until("over", || is_over(&sandbox));

    let status = ratelimit.json("attach eth0 --packets 7/s --confirm 1h");
    assert_eq!(status["confirm_within_seconds"], 3_600);
    assert!(is_waiting(&ratelimit));
    let text = ratelimit.ok("status");
    assert!(text.contains("\nthe last attach is undone in 59m"), "{text}");
    assert_eq!(ratelimit.ok("confirm"), "confirmed: the changes of `attach` stay\n");
    wait_until("gone", || is_over(&sandbox));
    assert_eq!(ratelimit.json("status").get("confirm_within_seconds"), None);
    assert_eq!(ratelimit.json("limit list")[0]["policy"]["packets"][0]["text"], "7/s");
    ratelimit.ok("detach --all");
}

#[test]
fn an_unconfirmed_attach_restores_the_running_instance() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    sandbox.ip("link add eth1 type veth peer name far1");
    ratelimit.ok("attach eth0 --packets 7/s --capacity 5k/s --unknown 9k/s");
    ratelimit.ok("deny add 10.0.0.1");
    let shown = |ratelimit: &Ratelimit<'_>| {
        let status = ratelimit.json("status");
        let keys = ["interfaces", "malformed", "unknown", "sample", "shadow"];
        (keys.map(|key| status[key].clone()), ratelimit.json("limit list"), ratelimit.json("allow list"))
    };
    let before = shown(&ratelimit);
    let words = "attach eth0 eth1 --packets 10/m,500/h --algorithm fixed-window --capacity 6k/s --unknown off --malformed pass --shadow --sample off --confirm 1d";
    ratelimit.ok(words);
    assert_ne!(shown(&ratelimit), before);
    // Rules of other commands stay.
    ratelimit.ok("deny add 10.0.0.2");
    // A waiter that receives a signal undoes the attach at once.
    kill_process(waiter(&sandbox), Signal::TERM).unwrap();
    wait_until("taken back", || is_over(&sandbox));
    wait_until("detached", || ratelimit.json("status")["interfaces"].as_array().unwrap().len() == 1);
    wait_until("as it was", || shown(&ratelimit) == before);
    assert_eq!(ratelimit.json("deny list").as_array().unwrap().len(), 2);

    // The undo creates new maps, so it also loads a new program.
    let sizes = || {
        let status = ratelimit.json("status");
        (status["sources"]["max"].clone(), status["front"]["cells"].clone())
    };
    let sizes_before = sizes();
    ratelimit.ok("attach eth0 --packets 3/d --algorithm sliding-log --max-sources 5000 --cells 2048 --confirm 1d");
    assert_eq!(sizes(), (json!(5_000), json!(2_048)));
    kill_process(waiter(&sandbox), Signal::TERM).unwrap();
    wait_until("gone", || is_over(&sandbox));
    assert_eq!(shown(&ratelimit).1, before.1);
    assert_eq!(shown(&ratelimit).0[1..], before.0[1..]);
    assert_eq!(sizes(), sizes_before);

    // Changes of other commands stay, and so does a rule that needs another feature of the program.
    ratelimit.ok("attach eth0 --packets 8/s --capacity 6k/s --confirm 1d");
    ratelimit.ok("limit set default --packets 9/s --service udp/53");
    ratelimit.ok("limit set default --packets 9/s");
    kill_process(waiter(&sandbox), Signal::TERM).unwrap();
    wait_until("taken back", || ratelimit.json("status")["interfaces"][0]["capacity"] == 5_000);
    wait_until("gone", || is_over(&sandbox));
    let limits = ratelimit.json("limit list");
    assert_eq!((&limits[0]["policy"]["packets"][0]["text"], &limits[1]["service"]), (&json!("9/s"), &json!("udp/53")));
    ratelimit.ok("detach --all");
}

#[test]
fn an_unconfirmed_replace_restores_the_other_program() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let sink = Sink::passing(&sandbox, VICTIM_LINK);
    ratelimit.ok("attach eth0 --replace --confirm 1s");
    let mark = format!("prog/xdp id {} ", sink.program_id());
    wait_until("put back", || sandbox.ip("link show eth0").contains(&mark));
    wait_until("gone", || sandbox.pins().is_empty());
    sandbox.ip("link set dev eth0 xdpdrv off");
}

#[test]
fn the_undo_happens_after_the_terminal_closes() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    // The end of a session sends the signal to the shell's processes. A process that has printed everything has already
    // exited, so the signal comes earlier.
    let mut command = ratelimit.command("attach eth0 --confirm 3s");
    command.process_group(0).stdout(Stdio::piped());
    let mut process = sandbox.start(command);
    let group = Pid::from_child(&process.child);
    wait_until("attached", || sandbox.ip("link show eth0").contains("xdp"));
    let _ = kill_process_group(group, Signal::HUP);
    let _ = process.wait();
    wait_until("detached", || sandbox.pins().is_empty() && !sandbox.ip("link show eth0").contains("xdp"));

    // A separate terminal that closes.
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let open = || OwnedFd::from(fs::File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap());
    let shell = "exec <>\"$TTY\" >\"$TTY\" 2>&1; \"$RATELIMIT\" attach eth0 --confirm 1d; read line";
    let mut command = std::process::Command::new("setsid");
    command.args(["--ctty", "sh", "-c", shell]).env("TTY", name.to_str().unwrap()).env_remove("SSH_CONNECTION");
    command.env("RATELIMIT", ratelimit.command("").get_program());
    command.stdin(Stdio::from(open())).stdout(Stdio::from(open())).stderr(Stdio::from(open()));
    let mut shell = sandbox.start(command);
    let mut terminal = fs::File::from(terminal);
    let mut text = String::new();
    while !text.contains("ratelimit confirm") {
        let mut bytes = [0; 4_096];
        let count = terminal.read(&mut bytes).unwrap();
        text += &String::from_utf8_lossy(&bytes[..count]);
    }
    drop(terminal);
    let _ = shell.wait();
    assert!(is_waiting(&ratelimit));
    kill_process(waiter(&sandbox), Signal::TERM).unwrap();
    wait_until("detached", || sandbox.pins().is_empty() && !sandbox.ip("link show eth0").contains("xdp"));
}

#[test]
fn a_killed_waiter_undoes_nothing() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --confirm 1d");
    kill_process(waiter(&sandbox), Signal::KILL).unwrap();
    wait_until("ended", || !is_waiting(&ratelimit));
    assert_eq!(ratelimit.run("confirm").status, 1);
    assert_eq!(ratelimit.json("status")["interfaces"][0]["name"], "eth0");
    // The leftovers do not block the next attach.
    ratelimit.ok("attach eth0 --confirm 1d");
    ratelimit.ok("confirm");
    wait_until("gone", || is_over(&sandbox));
    ratelimit.ok("detach --all");
}

#[test]
fn invalid_uses_of_confirm_are_refused() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let output = ratelimit.run("confirm");
    assert_eq!((output.status, output.stdout.as_str()), (1, "no `attach` waits for a confirmation\n"));
    let output = ratelimit.run("confirm --json");
    assert_eq!((output.status, output.stdout.as_str()), (1, "{\"confirmed\":false}\n"));
    for time in ["0s", "2d", "25h", "0", "soon"] {
        let line = ratelimit.fails(&format!("attach eth0 --confirm {time}"));
        assert!(line.contains("expected a time from 1s to 1d, such as 60s or 10m"), "{line}");
    }
    assert!(ratelimit.fails("attach eth0 --confirm 1s --log-level info").contains("cannot be used with"));
    assert!(ratelimit.fails("attach eth9 --confirm 1s").starts_with("ratelimit: no interface \"eth9\""));
    let line = ratelimit.fails("attach lo --confirm 1s");
    assert!(line.starts_with("ratelimit: lo: its driver does not support native XDP"), "{line}");
    assert!(sandbox.pins().is_empty());

    ratelimit.ok("attach eth0 --confirm 1d");
    let line = ratelimit.fails("attach eth0 --packets 5/s --confirm 1s");
    let process = waiter(&sandbox).as_raw_nonzero();
    let first = format!("ratelimit: another attach waits for its confirmation, in process {process} (");
    let last = "): run `ratelimit confirm` first, or wait until that attach is undone";
    assert!(line.starts_with(&first) && line.contains(" attach eth0 ") && line.ends_with(last), "{line}");
    assert!(ratelimit.json("limit list").as_array().unwrap().is_empty());
    // A new instance in its place is a different one, and no waiter belongs to it.
    ratelimit.ok("detach --all");
    assert!(is_over(&sandbox));
    ratelimit.ok("attach eth0 --packets 5/s");
    assert_eq!(ratelimit.run("confirm").status, 1);
    assert_eq!(ratelimit.json("limit list")[0]["policy"]["packets"][0]["text"], "5/s");
    ratelimit.ok("detach --all");
}

#[test]
fn an_instance_that_cannot_be_opened_is_still_detached() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --confirm 1d");
    sandbox.victim(|| fs::remove_file("/sys/fs/bpf/ratelimit/program").unwrap());
    kill_process(waiter(&sandbox), Signal::TERM).unwrap();
    wait_until("detached", || !sandbox.ip("link show eth0").contains("xdp"));
    wait_until("over", || is_over(&sandbox));
    ratelimit.ok("detach --all");
}

#[test]
fn a_confirmation_comes_through_beside_silent_connections_and_after_one_that_was_refused() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --confirm 1d");
    let process = waiter(&sandbox);
    let silent = silent(&sandbox, "/run/ratelimit.confirm/confirm");
    limit_files(process.as_raw_nonzero().get().unsigned_abs(), "3:");
    let refused = sandbox.victim(|| UnixStream::connect("/run/ratelimit.confirm/confirm").unwrap());
    // The process notices it before it sees the next connection.
    thread::sleep(Duration::from_millis(200));
    limit_files(process.as_raw_nonzero().get().unsigned_abs(), "1024:");
    let begin = Instant::now();
    ratelimit.ok("confirm");
    let took = begin.elapsed();
    assert!(took < scaled(Duration::from_secs(3)), "{took:?}");
    assert!(sandbox.ip("link show eth0").contains("xdp"));
    drop((silent, refused));
    ratelimit.ok("detach --all");
}

#[test]
fn a_very_long_answer_is_not_read_forever() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --confirm 1d");
    let mut stream = sandbox.victim(|| UnixStream::connect("/run/ratelimit.confirm/confirm").unwrap());
    // More than the command reads, without a line end.
    let _ = stream.write_all(&[b' '; 5_000]);
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert!(answer.contains("unknown request"), "{answer}");
    ratelimit.ok("confirm");
    ratelimit.ok("detach --all");
}
