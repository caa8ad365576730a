//! Changes of rules, settings, sizes and interfaces, one after the other.

use ratelimit_tests::{Daemon, Folder, Ratelimit, Sandbox};

/// An interface that comes and goes.
const OTHER: &str = "wan0";

/// Makes the changes.
pub(crate) struct Churn<'a> {
    sandbox: &'a Sandbox,
    ratelimit: &'a Ratelimit<'a>,
    folder: &'a Folder,
    count: u64,
}

impl<'a> Churn<'a> {
    /// Writes the first file.
    pub(crate) fn new(sandbox: &'a Sandbox, ratelimit: &'a Ratelimit<'a>, folder: &'a Folder) -> Self {
        let churn = Self { sandbox, ratelimit, folder, count: 0 };
        churn.add_interface();
        churn.write();
        churn
    }

    /// Makes the next change, waits until it acts, and does the same with a changed file.
    pub(crate) fn change(&mut self, daemon: &mut Daemon) {
        self.count += 1;
        let (ratelimit, number) = (self.ratelimit, self.count);
        let list: String = (0..1_000).map(|line| format!("198.18.{}.{}\n", line >> 8, line & 255)).collect();
        match number % 7 {
            0 => drop(ratelimit.ok(&format!("limit set 192.0.2.{} --packets {}/s", number % 250, 1 + number % 90))),
            1 => drop(ratelimit.ok_with("deny add -", &list)),
            2 => drop(ratelimit.ok_with("deny del -", &list)),
            3 => {
                let (cells, sources) = (65_536 << (number / 7 % 2), 20_000 + 10_000 * (number / 7 % 3));
                ratelimit.ok(&format!("set --cells {cells} --max-sources {sources}"));
            }
            4 => drop(ratelimit.ok(&format!("deny add 203.0.113.{} --for 1s", number % 250))),
            5 => {
                self.sandbox.ip(&format!("link del {OTHER}"));
                self.add_interface();
                self.wait_for(daemon, "back again, attached");
            }
            _ => {
                ratelimit.ok(&format!("cost set udp/{} 3", 1_000 + number % 5));
                ratelimit.ok(&format!("cost del udp/{}", 1_000 + number % 5));
            }
        }
        self.write();
        self.wait_for(daemon, ": reloaded");
    }

    /// Returns the number of changes.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    fn add_interface(&self) {
        self.sandbox.ip(&format!("link add {OTHER} type veth peer name far0"));
    }

    /// Writes a file with another limit each time.
    fn write(&self) {
        let rate = 100 + self.count % 50;
        self.folder.write(&format!(
            "interfaces = [\"eth0\", \"{OTHER}\"]\n[settings]\nunknown = \"5k/s\"\n[default]\npackets = \"{rate}/s\"\nparent = \"/24=5k/s\"\n\
             [service.\"tcp/80\"]\npackets = \"{rate}/s\"\nban = \"10s\"\n\
             [[rule]]\nsource = \"10.9.1.0/24\"\npackets = \"20/s\"\nalgorithm = \"sliding-log\"\n\
             [[rule]]\nsource = \"10.9.2.0/24\"\npackets = \"{rate}/m\"\nalgorithm = \"sliding-window\"\nover-limit = \"reject\"\n"
        ));
    }

    /// Reads lines of the daemon until one has this text.
    fn wait_for(&self, daemon: &mut Daemon, text: &str) {
        loop {
            let line = daemon.line();
            assert!(!line.is_empty(), "the daemon has ended");
            if line.contains(text) {
                return;
            }
            assert!(!line.contains("nothing was changed"), "{line}");
        }
    }
}
