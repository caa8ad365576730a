//! What is killed, and when.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    thread,
    time::Duration,
};

use ratelimit_tests::{Daemon, Folder, Ratelimit, Sandbox};
use rustix::process::{Pid, Signal, kill_process};

/// The kinds of processes that are killed.
const KINDS: [&str; 6] = [
    "a command that changes a rule",
    "a list of 5,000 rules",
    "a change of sizes and settings",
    "the daemon",
    "`attach --confirm`, while it waits",
    "an upgrade",
];

/// The latest moment of a kill, in milliseconds after the start of the process.
const LATEST: [u64; 6] = [30, 60, 150, 50, 1, 400];

/// Kills processes, one after the other.
pub(crate) struct Victims<'a> {
    sandbox: &'a Sandbox,
    folder: &'a Folder,
    daemon: Option<Daemon>,
    random: u64,
    /// Kills and complete runs of each kind.
    counts: [(u32, u32); KINDS.len()],
}

impl<'a> Victims<'a> {
    /// Starts the daemon.
    pub(crate) fn new(sandbox: &'a Sandbox, folder: &'a Folder, seed: u64) -> Self {
        let mut victims = Self { sandbox, folder, daemon: None, random: seed | 1, counts: Default::default() };
        victims.start_daemon();
        victims
    }

    /// Starts a process of a random kind, and kills it at a random moment. The next command then tidies up.
    pub(crate) fn kill_one(&mut self) {
        let kind = self.draw(KINDS.len() as u64) as usize;
        let delay = Duration::from_micros(self.draw(LATEST[kind] * 1_000));
        let ratelimit = Ratelimit::new(self.sandbox);
        let number = self.draw(200);
        let cells = 1_024 << self.draw(4);
        let was_killed = match kind {
            0 => {
                let words = match self.draw(3) {
                    0 => format!("deny add 192.0.2.{number}"),
                    1 => format!("limit set 192.0.2.{number} --packets 5/s"),
                    _ => format!("deny del 192.0.2.{number}"),
                };
                self.run(&ratelimit, &words, "", delay)
            }
            1 => {
                let list: String = (0..5_000).map(|line| format!("198.18.{}.{}\n", line >> 8, line & 255)).collect();
                let verb = ["add", "del"][self.draw(2) as usize];
                self.run(&ratelimit, &format!("deny {verb} -"), &list, delay)
            }
            2 => {
                let sources = 1_000 + self.draw(3) * 1_000;
                let words = format!("attach eth0 --cells {cells} --max-sources {sources}");
                self.run(&ratelimit, &words, "", delay)
            }
            3 => {
                let mut daemon = self.daemon.take().expect("the daemon runs");
                let _ = ratelimit.run(&format!("deny add 192.0.2.{number}"));
                thread::sleep(delay);
                daemon.process.signal(Signal::KILL);
                drop(daemon.process.wait());
                self.start_daemon();
                true
            }
            4 => {
                let words = format!("attach eth0 --cells {cells} --confirm 1d");
                ratelimit.ok(&words);
                assert!(self.kill_waiter(&words), "nobody waits for a confirmation");
                true
            }
            _ => {
                let other = Ratelimit::other(self.sandbox);
                let was_killed = self.run(&other, "upgrade", "", delay);
                // The daemon's own version takes over again.
                ratelimit.ok("upgrade");
                was_killed
            }
        };
        let (kills, complete) = &mut self.counts[kind];
        *(if was_killed { kills } else { complete }) += 1;
        ratelimit.ok("status");
    }

    /// Ends the daemon.
    pub(crate) fn end(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            daemon.process.signal(Signal::TERM);
            drop(daemon.process.wait());
        }
    }

    /// Returns the table for the page.
    pub(crate) fn table(&self, sent: u64, passed: u64) -> String {
        let mut table = "| killed | times killed | ended before |\n|---|---|---|\n".to_owned();
        for (kind, (kills, complete)) in KINDS.iter().zip(&self.counts) {
            table += &format!("| {kind} | {kills} | {complete} |\n");
        }
        let all: u32 = self.counts.iter().map(|(kills, _)| kills).sum();
        table
            + &format!(
                "\nDuring {all} kills, {sent} packets arrived at the card. {passed} passed: the bursts of all sources.\n"
            )
    }

    fn start_daemon(&mut self) {
        let mut daemon = Daemon::start(self.sandbox, &Ratelimit::new(self.sandbox), &self.folder.file());
        let line = daemon.line();
        assert!(line.contains(": in force"), "{line}");
        self.daemon = Some(daemon);
    }

    /// Runs a command, and kills it after this time. Returns whether it had not ended before.
    fn run(&self, ratelimit: &Ratelimit<'_>, words: &str, input: &str, delay: Duration) -> bool {
        let mut command = ratelimit.command(words);
        command.stdin(ratelimit_tests::stdin(input)).stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = self.sandbox.start(command);
        thread::sleep(delay);
        let was_running = process.child.try_wait().expect("cannot wait").is_none();
        // It may have ended just now.
        let _ = process.child.kill();
        drop(process.wait());
        was_running
    }

    /// Kills the process that waits for the confirmation of this attach. Returns whether there is one.
    fn kill_waiter(&self, words: &str) -> bool {
        let expected: Vec<&str> = words.split(' ').collect();
        let ours = self.sandbox.victim(|| namespace(Path::new("/proc/thread-self")));
        for entry in fs::read_dir("/proc").expect("no /proc").flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            let arguments: Vec<&str> = line.trim_end_matches('\0').split('\0').skip(1).collect();
            if arguments == expected && namespace(&entry.path()) == ours {
                return Pid::from_raw(pid).is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok());
            }
        }
        false
    }

    /// Draws a number below this one.
    fn draw(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % below.max(1)
    }
}

/// Returns the network namespace of a process or thread.
fn namespace(process: &Path) -> Option<PathBuf> {
    fs::read_link(process.join("ns/net")).ok()
}
