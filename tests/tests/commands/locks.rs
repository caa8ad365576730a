//! Locks that another process does not release: commands give up and name that process, and the daemon tries again.

use std::{
    fs::{self, File},
    hint::black_box,
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use ratelimit_dataplane::instance::daemon_lock::DaemonLock;
use ratelimit_tests::{Daemon, Folder, Process, Ratelimit, Sandbox, wait_until};
use rustix::{
    fs::{FlockOperation, flock},
    process::Signal,
    thread::set_name,
};

use crate::{PINS, run::limits};

/// How long a command waits for a lock while nothing happens.
const PATIENCE: Duration = Duration::from_secs(10);

/// Starts a process that takes the lock of a path and keeps it.
fn hold(sandbox: &Sandbox, path: &str) -> Process {
    let holder = hold_with(sandbox, path, &["sleep", "1000"]);
    // Until then, it makes progress.
    let file = format!("/proc/{}/stat", holder.child.id());
    wait_until("the holder sleeps", || fs::read_to_string(&file).is_ok_and(|stat| stat.contains("(sleep) S")));
    holder
}

/// Starts a process that takes the lock of a path, and then runs these words.
fn hold_with(sandbox: &Sandbox, path: &str, words: &[&str]) -> Process {
    let mut command = Command::new("flock");
    command.args(["--no-fork", path]).args(words);
    let process = sandbox.start(command);
    wait_until("locked", || is_locked(sandbox, path));
    process
}

fn is_locked(sandbox: &Sandbox, path: &str) -> bool {
    let file = sandbox.victim(|| File::open(path));
    file.is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockShared).is_err())
}

/// Runs a command, and returns its exit status and its whole standard error.
fn run(sandbox: &Sandbox, command: &mut Command) -> (Option<i32>, String) {
    let output = sandbox.output(command);
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// Returns the line of a command that waits for a lock.
fn waits(path: &str, holder: &str) -> String {
    format!("ratelimit: waits for {path}, which is locked by {holder}\n")
}

/// Returns the line of a command that gives up.
fn gives_up(path: &str, holder: &str) -> String {
    format!(
        "{path} is locked by {holder}, without progress for 10 seconds: wait until it ends, or end it, then try again"
    )
}

/// Returns the process as messages name it.
fn named(process: &Process) -> String {
    format!("process {} (sleep 1000)", process.child.id())
}

#[test]
fn commands_name_the_holder_of_the_lock_and_the_daemon_tries_again() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    let file = |rate: &str| format!("interfaces = [\"eth0\"]\n[default]\npackets = \"{rate}\"\n");
    folder.write(&file("5/s"));
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();

    let holder = hold(&sandbox, PINS);
    let (waits, locked) = (waits(PINS, &named(&holder)), gives_up(PINS, &named(&holder)));
    folder.write(&file("6/s"));
    let begin = Instant::now();
    thread::scope(|scope| {
        let commands = ["limit set 192.0.2.1 --packets 1/s", "status", "detach --all", "reload"];
        let outputs = commands.map(|words| (words, scope.spawn(|| run(&sandbox, &mut ratelimit.command(words)))));
        for (words, output) in outputs {
            let (status, stderr) = output.join().unwrap();
            let error = if words == "reload" { format!("nothing was changed: {locked}") } else { locked.clone() };
            assert_eq!((status, stderr), (Some(2), format!("{waits}ratelimit: {error}\n")), "{words}");
        }
    });
    let took = begin.elapsed();
    assert!(took >= PATIENCE, "{took:?}");
    assert_eq!(daemon.wait_line() + "\n", waits);
    assert_eq!(daemon.line(), format!("ratelimit: nothing was changed: {locked}"));
    // Packets and readers without the lock do not wait.
    assert!(ratelimit.ok("metrics").contains("ratelimit_config_last_reload_successful 0\n"));
    drop(holder);
    let mut line = daemon.line();
    while line.starts_with("ratelimit: nothing was changed: ") {
        line = daemon.line();
    }
    assert!(line.contains(": reloaded, rules: 1 set, 0 deleted, 0 unchanged; replaced default (was "), "{line}");
    assert_eq!(limits(&ratelimit), ["default any 6/s config"]);
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn a_daemon_gives_up_after_ten_seconds_although_the_holder_works() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    folder.write("interfaces = [\"eth0\"]\n");
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    // It ends after a minute of work, so that a daemon that waits for it fails the test.
    let work = "ulimit -t 60; while :; do :; done";
    let holder = hold_with(&sandbox, PINS, &["sh", "-c", work]);
    let holding = format!("{PINS} is locked by process {} (sh -c {work})", holder.child.id());
    folder.write("interfaces = [\"eth0\"]\n[default]\npackets = \"5/s\"\n");
    assert!(daemon.wait_line().starts_with("ratelimit: waits for "));
    let expected = format!("ratelimit: nothing was changed: {holding}, for 10 seconds: ");
    let line = daemon.line();
    assert!(line.starts_with(&expected), "{line}");
    drop(holder);
    let mut line = daemon.line();
    while line.starts_with("ratelimit: nothing was changed: ") {
        line = daemon.line();
    }
    assert!(line.contains(": reloaded, rules: 1 set"), "{line}");
    daemon.end();
    ratelimit.ok("detach --all");
}

/// What a process in a container is told of one outside.
const UNSEEN: &str = "a process that is not visible here, such as one in another container";

/// Returns a command with processes of its own: it sees none outside.
fn contained(inner: &Command) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc", "--kill-child"]).arg(inner.get_program()).args(inner.get_args());
    command
}

/// Starts `status` for a folder without an instance, which waits for the lock. Returns it after a time in which it would
/// have given up.
fn outlasts(sandbox: &Sandbox, mut status: Command) -> Process {
    status.stderr(Stdio::piped());
    let mut waiting = sandbox.start(status);
    thread::sleep(PATIENCE + Duration::from_secs(3));
    assert!(waiting.child.try_wait().unwrap().is_none(), "{:?}", waiting.wait());
    waiting
}

/// Checks that a command that has waited goes on when the lock is released.
fn goes_on(mut waiting: Process, folder: &str, said: &str) {
    let attach = format!("ratelimit --pins {folder} attach IFACE");
    let none = format!("ratelimit: ratelimit is not attached in {folder}: run `{attach}` first\n");
    assert_eq!(String::from_utf8(waiting.wait().stderr).unwrap(), format!("{said}{none}"));
}

#[test]
fn a_command_waits_while_the_holder_works_or_the_lock_changes_hands() {
    let sandbox = &Sandbox::new();
    let ratelimit = Ratelimit::new(sandbox);
    let [by_process, by_thread, by_others] = ["process", "thread", "others"].map(|name| format!("/sys/fs/bpf/{name}"));
    let folders = [&by_process, &by_thread, &by_others];
    folders.iter().for_each(|folder| sandbox.victim(|| fs::create_dir(folder).unwrap()));
    let status = |folder: &str| ratelimit.command(&format!("--pins {folder} status"));
    thread::scope(|scope| {
        scope.spawn(|| {
            let some_work = "while sleep 0.2; do i=0; while [ $i -lt 9999 ]; do i=$((i+1)); done; done";
            let holder = hold_with(sandbox, &by_process, &["sh", "-c", some_work]);
            let waiting = outlasts(sandbox, status(&by_process));
            let shown: String = format!("sh -c {some_work}").chars().take(60).collect();
            let said = waits(&by_process, &format!("process {} ({shown}…)", holder.child.id()));
            drop(holder);
            goes_on(waiting, &by_process, &said);
        });
        // The main thread of this process does nothing meanwhile. The one with the lock has the name that the product gives.
        scope.spawn(|| {
            let file = sandbox.victim(|| File::open(&by_thread).unwrap());
            flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
            set_name(c"has-pins-lock").unwrap();
            let is_over = AtomicBool::new(false);
            let waiting = thread::scope(|scope| {
                let waiting = scope.spawn(|| {
                    let waiting = outlasts(sandbox, status(&by_thread));
                    is_over.store(true, Ordering::Relaxed);
                    waiting
                });
                while !is_over.load(Ordering::Relaxed) && !waiting.is_finished() {
                    (0..9_999_999).for_each(|number: u32| {
                        black_box(number);
                    });
                    thread::sleep(Duration::from_millis(200));
                }
                waiting.join().unwrap()
            });
            let own = fs::read_to_string("/proc/self/cmdline").unwrap().trim_end_matches('\0').replace('\0', " ");
            let shown: String = own.chars().take(60).collect();
            let shown = if shown == own { shown } else { shown + "…" };
            let said = waits(&by_thread, &format!("process {} ({shown})", std::process::id()));
            drop(file);
            goes_on(waiting, &by_thread, &said);
        });
        // Each command that takes the lock sets the time of the folder, as `touch` does.
        scope.spawn(|| {
            let holder = hold(sandbox, &by_others);
            let is_over = AtomicBool::new(false);
            let waiting = thread::scope(|scope| {
                let waiting = scope.spawn(|| {
                    let waiting = outlasts(sandbox, contained(&status(&by_others)));
                    is_over.store(true, Ordering::Relaxed);
                    waiting
                });
                while !is_over.load(Ordering::Relaxed) && !waiting.is_finished() {
                    assert!(sandbox.output(Command::new("touch").arg(&by_others)).status.success());
                    thread::sleep(Duration::from_secs(1));
                }
                waiting.join().unwrap()
            });
            drop(holder);
            goes_on(waiting, &by_others, &waits(&by_others, UNSEEN));
        });
    });
    folders.iter().for_each(|folder| sandbox.victim(|| fs::remove_dir(folder).unwrap()));
}

#[test]
fn each_command_that_takes_the_lock_sets_the_time_of_the_folder() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    let time = || sandbox.victim(|| fs::metadata(PINS).unwrap().modified().unwrap());
    let before = time();
    wait_until("another time", || {
        ratelimit.ok("limit set 192.0.2.1 --packets 1/s");
        time() > before
    });
    ratelimit.ok("detach --all");
}

#[test]
fn a_daemon_that_starts_or_ends_does_not_set_the_time_of_the_folder() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    sandbox.victim(|| {
        let time = || fs::metadata(PINS).unwrap().modified().unwrap();
        let (before, mut lock) = (time(), None);
        DaemonLock::take_early(PINS.as_ref(), &mut lock).unwrap();
        assert!(lock.is_some());
        assert_eq!(time(), before);
        drop(lock);
        assert_eq!(time(), before);
    });
    ratelimit.ok("detach --all");
}

#[test]
fn a_holder_that_is_stopped_or_not_visible_is_named_when_it_does_nothing() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    // An attach that is stopped while it has the lock. It may end before.
    let mut stopped = loop {
        let process = sandbox.start(ratelimit.command("attach eth0"));
        wait_until("locked or over", || {
            is_locked(&sandbox, PINS) || sandbox.victim(|| fs::exists(format!("{PINS}/links/eth0")).unwrap())
        });
        process.signal(Signal::STOP);
        let stat = format!("/proc/{}/stat", process.child.id());
        wait_until("stopped or over", || {
            let stat = fs::read_to_string(&stat).unwrap();
            stat.contains(") T ") || stat.contains(") Z ")
        });
        if is_locked(&sandbox, PINS) {
            break process;
        }
        drop(process);
        ratelimit.ok("detach --all");
    };
    let holder = format!(
        "process {} ({} attach eth0), which is stopped",
        stopped.child.id(),
        ratelimit.command("").get_program().display()
    );
    thread::scope(|scope| {
        let status = ratelimit.command("status");
        for (mut command, holder) in [(contained(&status), UNSEEN), (status, &*holder)] {
            let sandbox = &sandbox;
            scope.spawn(move || {
                let expected = format!("{}ratelimit: {}\n", waits(PINS, holder), gives_up(PINS, holder));
                assert_eq!(run(sandbox, &mut command), (Some(2), expected));
            });
        }
    });
    stopped.signal(Signal::CONT);
    assert!(stopped.wait().status.success());
    ratelimit.ok("detach --all");
}

#[test]
fn an_interface_that_comes_back_during_a_lock_is_attached_later() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    sandbox.ip("link add wan0 type veth peer name far0");
    folder.write("interfaces = [\"wan0\"]\n");
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    let holder = hold(&sandbox, PINS);
    sandbox.ip("link del wan0");
    sandbox.ip("link add wan0 type veth peer name far0");
    assert_eq!(daemon.wait_line() + "\n", waits(PINS, &named(&holder)));
    let line = daemon.line();
    let expected = format!("ratelimit: wan0: back again, but not limited: {PINS} is locked by {}", named(&holder));
    assert!(line.starts_with(&expected), "{line}");
    drop(holder);
    let mut line = daemon.line();
    while line.starts_with(&expected) {
        line = daemon.line();
    }
    assert_eq!(line, "ratelimit: wan0: back again, attached");
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn a_second_daemon_is_told_which_process_is_the_first() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    folder.write("interfaces = [\"eth0\"]\n");
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    let run = format!("run -c {}", folder.file().display());
    let first = format!("process {} (", daemon.process.child.id());
    // By the lock of the socket, and by the lock among the pins.
    for lost in ["", "/run/ratelimit/socket.lock"] {
        if !lost.is_empty() {
            sandbox.victim(|| fs::remove_file(lost).unwrap());
        }
        let line = ratelimit.fails(&run);
        assert!(line.contains(&first) && line.contains(" run -c "), "{line}");
    }
    daemon.process.signal(Signal::TERM);
    assert!(daemon.line().contains("ended"));
    assert!(daemon.process.wait().status.success());
    ratelimit.ok("detach --all");
}
