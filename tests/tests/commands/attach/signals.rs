//! Signals that end a command while it changes something: Ctrl-C, a terminal that closes, a request to end.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{BufRead as _, BufReader, Read as _},
    os::unix::process::ExitStatusExt as _,
    path::PathBuf,
    process::{ChildStderr, Command, Output, Stdio},
};

use ratelimit_tests::{Call, Fault, Process, Ratelimit, Sandbox, traced, try_traced, wait_until};
use rustix::{
    fs::{FlockOperation, flock},
    process::{Signal, kill_process},
};

use crate::{
    PINS,
    confirm::{is_over, waiter},
};

/// Signals that end a command, with their numbers.
const SIGNALS: [(&str, i32); 3] = [("INT", libc::SIGINT), ("HUP", libc::SIGHUP), ("TERM", libc::SIGTERM)];

/// An attach that is undone unless it is confirmed.
const CONFIRMED: &str = "attach eth0 --packets 5/s --confirm 1h";

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

/// Has signals end what this process starts. A shell that runs the tests in the background ignores SIGINT for them.
fn end_by_signals() {
    for (_, signal) in SIGNALS {
        // SAFETY: the default action is no function.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
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
    end_by_signals();
    let sandbox = Sandbox::new();
    sandbox.ip("link add eth1 type veth");
    let words = "attach eth0 eth1 --packets 5/s --mode generic";
    let [undone, done] =
        end_at_many_moments(&sandbox, words, &["detach --all"], || (pins(&sandbox), attached(&sandbox)));
    println!("undone: {undone}, done: {done}");
    assert!(undone >= 12, "{undone}");
    let _ = Ratelimit::new(&sandbox).run("detach --all");
}

/// Starts an attach that waits for a confirmation.
fn start_confirm(sandbox: &Sandbox) -> Process {
    let mut command = Ratelimit::new(sandbox).command(CONFIRMED);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    sandbox.start(command)
}

#[test]
fn ctrl_c_while_an_attach_with_a_confirmation_begins_undoes_it() {
    end_by_signals();
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let is_begun = || !is_over(&sandbox);
    let has_pins = || !pins(&sandbox).is_empty();
    let is_attached = || !attached(&sandbox).is_empty();
    let moments: [(&str, &dyn Fn() -> bool); 3] =
        [("begun", &is_begun), ("pinned", &has_pins), ("attached", &is_attached)];
    let mut undone = 0;
    for (name, signal) in SIGNALS {
        for (moment, has_come) in moments {
            let mut attach = start_confirm(&sandbox);
            wait_until(moment, || has_come() || attach.child.try_wait().unwrap().is_some());
            // A command that has ended is reaped, and can get no signal any more.
            if attach.child.try_wait().unwrap().is_none() {
                attach.signal(Signal::from_named_raw(signal).unwrap());
            }
            let Output { status, stdout, stderr } = attach.wait();
            let (shown, said) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
            if shown.is_empty() {
                assert_eq!(status.signal(), Some(signal), "{moment}: {said}");
                assert_eq!(said, format!("ratelimit: ended by SIG{name}, and everything is as it was before\n"));
                assert_eq!((pins(&sandbox), attached(&sandbox)), (BTreeSet::new(), vec![]), "SIG{name}, {moment}");
                wait_until("the waiter is gone", || is_over(&sandbox));
                undone += 1;
            } else {
                // The command was complete.
                assert_eq!((said.as_str(), attached(&sandbox)), ("", vec!["eth0"]), "{status}");
                ratelimit.ok("detach --all");
            }
        }
    }
    assert!(undone >= 6, "{undone}");
}

/// Ends an attach while its waiter already waits: the command is stopped until `meanwhile` is done. Returns what it says.
fn end_late(sandbox: &Sandbox, meanwhile: impl FnOnce()) -> String {
    let ratelimit = Ratelimit::new(sandbox);
    let mut attach = start_confirm(sandbox);
    wait_until("begun", || !is_over(sandbox));
    attach.signal(Signal::STOP);
    wait_until("waits", || ratelimit.run("status --json").stdout.contains("confirm_within_seconds"));
    meanwhile();
    attach.signal(Signal::TERM);
    attach.signal(Signal::CONT);
    let output = attach.wait();
    assert_eq!(output.status.signal(), Some(libc::SIGTERM), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_command_that_a_signal_ends_says_that_everything_is_as_before_only_if_it_is() {
    end_by_signals();
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let (undone, unknown) = (
        "ratelimit: ended by SIGTERM, and everything is as it was before\n",
        "ratelimit: ended by SIGTERM; look at `ratelimit status`\n",
    );
    assert_eq!(end_late(&sandbox, || {}), undone);
    assert_eq!((pins(&sandbox), attached(&sandbox)), (BTreeSet::new(), vec![]));
    let said = end_late(&sandbox, || {
        ratelimit.ok("confirm");
        wait_until("confirmed", || is_over(&sandbox));
    });
    assert_eq!((said.as_str(), attached(&sandbox)), (unknown, vec!["eth0"]));
    ratelimit.ok("detach --all");
    wait_until("over", || is_over(&sandbox));
    // The rest is undone when another process has released the instance.
    let mut lock = None;
    let said = end_late(&sandbox, || {
        let folder = sandbox.victim(|| File::open(PINS)).unwrap();
        flock(&folder, FlockOperation::LockExclusive).unwrap();
        lock = Some(folder);
    });
    assert_eq!((said.as_str(), attached(&sandbox)), (unknown, vec![]));
    drop(lock);
    wait_until("undone", || pins(&sandbox).is_empty() && is_over(&sandbox));
    // A waiter that is killed undoes nothing.
    let said = end_late(&sandbox, || kill_process(waiter(&sandbox), Signal::KILL).unwrap());
    assert_eq!((said.as_str(), attached(&sandbox)), (unknown, vec!["eth0"]));
    ratelimit.ok("detach --all");
}

#[test]
fn a_change_whose_report_nobody_reads_ends_at_a_signal_and_releases_the_lock() {
    end_by_signals();
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    let addresses: Vec<String> = (0..2000).map(|number| format!("10.7.{}.{}", number / 250, number % 250)).collect();
    let mut command = ratelimit.command(&format!("-j deny add {}", addresses.join(" ")));
    command.stdout(Stdio::piped());
    let mut change = sandbox.start(command);
    let waits_in = format!("/proc/{}/wchan", change.child.id());
    wait_until("blocked", || fs::read_to_string(&waits_in).is_ok_and(|name| name.contains("pipe_write")));
    change.signal(Signal::TERM);
    wait_until("ended", || change.child.try_wait().unwrap().is_some());
    assert_eq!(change.wait().status.signal(), Some(libc::SIGTERM));
    assert_eq!(ratelimit.json("deny list").as_array().unwrap().len(), addresses.len());
    ratelimit.ok("detach --all");
}

#[test]
fn a_change_that_a_signal_ends_is_done_or_not_begun() {
    end_by_signals();
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
    end_by_signals();
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    let lock = sandbox.victim(|| File::open(PINS)).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    for words in ["attach eth0 --packets 5/s", CONFIRMED, "set --shadow on", "deny add 10.9.0.7", "detach --all"] {
        let (mut waiting, mut lines) = start_waiting(&sandbox, ratelimit.command(words));
        waiting.signal(Signal::INT);
        assert_eq!(waiting.wait().status.signal(), Some(libc::SIGINT), "{words}");
        let mut said = String::new();
        lines.read_to_string(&mut said).unwrap();
        let is_attach = words.starts_with("attach");
        assert_eq!(
            said,
            if is_attach { "ratelimit: ended by SIGINT, and everything is as it was before\n" } else { "" }
        );
    }
    // What blocks a signal before the command does not end it.
    let inner = ratelimit.command("attach eth0 --packets 5/s");
    let mut command = Command::new("env");
    command.arg("--block-signal=TERM").arg(inner.get_program()).args(inner.get_args()).env_remove("SSH_CONNECTION");
    let (mut blocked, mut lines) = start_waiting(&sandbox, command);
    blocked.signal(Signal::TERM);
    drop(lock);
    assert!(blocked.wait().status.success());
    let mut said = String::new();
    lines.read_to_string(&mut said).unwrap();
    assert_eq!(said, "");
    assert_eq!(ratelimit.json("limit list")[0]["policy"]["packets"][0]["text"], "5/s");
    assert!(ratelimit.json("deny list").as_array().unwrap().is_empty());
    assert_eq!(attached(&sandbox), ["eth0"]);
    // As with `nohup`.
    ratelimit.ok("detach --all");
    let inner = ratelimit.command("attach eth0 --packets 5/s");
    let mut command = Command::new("sh");
    command
        .args(["-c", "trap '' HUP; echo ignored; exec \"$0\" \"$@\""])
        .arg(inner.get_program())
        .args(inner.get_args());
    command.env_remove("SSH_CONNECTION").stdout(Stdio::piped());
    let mut attach = sandbox.start(command);
    let mut output = BufReader::new(attach.child.stdout.take().unwrap());
    // Before the shell ignores it, the signal would end the shell.
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "ignored\n");
    attach.signal(Signal::HUP);
    output.read_to_string(&mut line).unwrap();
    assert!(attach.wait().status.success());
    assert_eq!(attached(&sandbox), ["eth0"]);
    ratelimit.ok("detach --all");
}

/// Starts a command and waits until it says that it waits for the lock. Returns the rest of what it says, too.
fn start_waiting(sandbox: &Sandbox, mut command: Command) -> (Process, BufReader<ChildStderr>) {
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut waiting = sandbox.start(command);
    let (mut lines, mut line) = (BufReader::new(waiting.child.stderr.take().unwrap()), String::new());
    lines.read_line(&mut line).unwrap();
    assert!(line.starts_with("ratelimit: waits for /"), "{line}");
    (waiting, lines)
}
