//! Signals that end a command while it changes something: Ctrl-C, a terminal that closes, a request to end.

use std::{
    collections::BTreeSet,
    fs::File,
    os::unix::process::ExitStatusExt as _,
    path::PathBuf,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use ratelimit_tests::{Call, Fault, Ratelimit, Sandbox, traced, try_traced};
use rustix::{
    fs::{FlockOperation, flock},
    process::Signal,
};

use crate::PINS;

/// Signals that end a command, with their numbers.
const SIGNALS: [(&str, i32); 3] = [("INT", libc::SIGINT), ("HUP", libc::SIGHUP), ("TERM", libc::SIGTERM)];

/// System calls at which a command is ended.
const CALLS: [&str; 5] = ["bpf", "mkdir", "rename", "unlink", "rmdir"];

/// Interfaces with a program.
fn attached(sandbox: &Sandbox) -> Vec<&'static str> {
    let all = sandbox.ip("-oneline link show");
    let is_one = |line: &str, name: &str| line.contains(&format!(": {name}@")) && line.contains("prog/xdp");
    let has_program = |name: &&str| all.lines().any(|line| is_one(line, name));
    ["eth0", "eth1"].into_iter().filter(has_program).collect()
}

/// Names of all pins, without the ids of links.
fn pins(sandbox: &Sandbox) -> BTreeSet<String> {
    let name = |pin: &PathBuf| pin.display().to_string().split('@').next().unwrap().to_owned();
    sandbox.pins().iter().map(name).collect()
}

/// Returns so many of the calls of a command, from the first to the last.
fn some(calls: &[Call], most: usize) -> Vec<(&'static str, usize)> {
    let step = calls.len().div_ceil(most).max(1);
    let last = calls.last().into_iter();
    calls.iter().step_by(step).chain(last).map(|call| (call.name, call.number)).collect()
}

/// Ends this command at some of its system calls. After each, `look` finds out what is there, and the result is one of two:
/// that before, or that of the whole command. Returns how often it was each.
fn end_at_many_moments<T: PartialEq + std::fmt::Debug>(
    sandbox: &Sandbox,
    words: &str,
    reset: &[&str],
    look: impl Fn() -> T,
) -> [usize; 2] {
    let ratelimit = Ratelimit::new(sandbox);
    let reset = || reset.iter().for_each(|words| drop(ratelimit.run(words)));
    let command = ratelimit.command(words);
    reset();
    let before = look();
    let calls = traced(sandbox, &command, "", &CALLS, None).calls;
    let after = look();
    assert_ne!(before, after, "{words}");
    let mut times = [0, 0];
    for (turn, (call, number)) in some(&calls, 24).into_iter().enumerate() {
        let (name, signal) = SIGNALS[turn % SIGNALS.len()];
        reset();
        let run = try_traced(sandbox, &command, "", &CALLS, Some((call, number, Fault::Signal(name))));
        if !run.happened {
            // Commands look at programs of other tests too, so the number of their calls changes.
            assert!(run.output.status.success() && look() == after, "{words}: {:?}", run.output);
            continue;
        }
        let ended = run.output;
        assert_eq!(ended.status.signal(), Some(signal), "{words}, {name} at {call} {number}: {ended:?}");
        let (now, said) = (look(), String::from_utf8(ended.stderr).unwrap());
        let is_undone = now == before;
        assert!(is_undone || now == after, "{words}, {name} at {call} {number}: {now:?}, {said}");
        if words.starts_with("attach") && is_undone && !said.is_empty() {
            assert_eq!(said, format!("ratelimit: ended by SIG{name}, and everything is as it was before\n"));
        }
        times[usize::from(!is_undone)] += 1;
    }
    assert!(times.iter().sum::<usize>() >= 12, "{words}: {times:?}");
    times
}

#[test]
fn an_attach_that_a_signal_ends_is_undone_at_every_moment() {
    let sandbox = Sandbox::new();
    sandbox.ip("link add eth1 type veth");
    let words = "attach eth0 eth1 --packets 5/s --mode generic";
    let [undone, done] =
        end_at_many_moments(&sandbox, words, &["detach --all"], || (pins(&sandbox), attached(&sandbox)));
    println!("undone: {undone}, done: {done}");
    assert!(undone >= 12, "{undone}");
    let _ = Ratelimit::new(&sandbox).run("detach --all");
}

#[test]
fn ctrl_c_while_an_attach_with_a_confirmation_begins_undoes_it() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    for milliseconds in [50, 150, 300, 450, 600, 900] {
        let mut command = ratelimit.command("attach eth0 --packets 5/s --confirm 1h");
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut attach = sandbox.start(command);
        thread::sleep(Duration::from_millis(milliseconds));
        let is_over = attach.child.try_wait().unwrap().is_some();
        if !is_over {
            attach.signal(Signal::INT);
        }
        let status = attach.wait().status;
        if status.signal() == Some(libc::SIGINT) {
            assert_eq!((pins(&sandbox), attached(&sandbox)), (BTreeSet::new(), vec![]), "after {milliseconds} ms");
        } else {
            assert_eq!((status.code(), attached(&sandbox)), (Some(0), vec!["eth0"]), "after {milliseconds} ms");
        }
        let _ = ratelimit.run("detach --all");
    }
}

#[test]
fn a_change_that_a_signal_ends_is_done_or_not_begun() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    sandbox.ip("link add eth1 type veth");
    let small = "attach eth0 --packets 5/s --cells 1024 --max-sources 1000";
    let look = || {
        let status = ratelimit.json("status").to_string();
        let settings = ["\"cells\":2048", "\"per_second\":5000", "\"everything\":true", "\"9/s\""];
        (settings.map(|setting| status.contains(setting)), attached(&sandbox), pins(&sandbox))
    };
    for (words, reset) in [
        ("set --unknown 5k/s --shadow on", &["detach --all", small][..]),
        ("attach eth0 eth1 --cells 2048 --packets 9/s", &["detach --all", small]),
        ("detach eth1", &["detach --all", small, "attach eth1"]),
    ] {
        let times = end_at_many_moments(&sandbox, words, reset, look);
        println!("{words}: {times:?} before and after");
    }
    ratelimit.ok("detach --all");
}

#[test]
fn a_command_that_waits_for_the_lock_ends_at_once_and_one_that_ignores_hangups_does_not() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    let lock = sandbox.victim(|| File::open(PINS)).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    for words in ["attach eth0 --packets 5/s", "set --shadow on", "deny add 10.9.0.7", "detach --all"] {
        let mut command = ratelimit.command(words);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut waiting = sandbox.start(command);
        thread::sleep(Duration::from_millis(300));
        waiting.signal(Signal::INT);
        assert_eq!(waiting.wait().status.signal(), Some(libc::SIGINT), "{words}");
    }
    drop(lock);
    assert!(ratelimit.json("deny list").as_array().unwrap().is_empty());
    assert_eq!(attached(&sandbox), ["eth0"]);
    // As with `nohup`.
    ratelimit.ok("detach --all");
    let inner = ratelimit.command("attach eth0 --packets 5/s");
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$0\" \"$@\""]).arg(inner.get_program()).args(inner.get_args());
    command.env_remove("SSH_CONNECTION").stdout(Stdio::null());
    let mut attach = sandbox.start(command);
    // Before the shell ignores it, the signal would end the shell.
    thread::sleep(Duration::from_millis(100));
    attach.signal(Signal::HUP);
    assert!(attach.wait().status.success());
    assert_eq!(attached(&sandbox), ["eth0"]);
    ratelimit.ok("detach --all");
}
