//! The live table.

use std::{
    cell::Cell,
    fmt::Write as _,
    io::{self, IsTerminal as _, Write as _},
    time::Duration,
};

use crate::{
    client::Requests,
    phase::{CLIENT, PHASES, Phase, SOURCES},
    sample::Interval,
    words,
};

/// The output: redrawn in place on a terminal, line by line elsewhere.
pub(crate) struct Screen {
    is_terminal: bool,
    /// Lines of the table that the next one replaces.
    stale: Cell<usize>,
}

impl Screen {
    pub(crate) fn new() -> Self {
        Self { is_terminal: io::stdout().is_terminal(), stale: Cell::new(0) }
    }

    /// Prints an introduction.
    pub(crate) fn introduce(&self) -> io::Result<()> {
        let seconds: u64 = PHASES.iter().map(|phase| phase.time.as_secs()).sum();
        self.write(&format!(
            "A web server, a web client and three floods, in network namespaces of their own, for {seconds} seconds.\n\
             Offered is what the senders count; passed and dropped is what `ratelimit sources` says.\n\n"
        ))
    }

    /// Prints the start of a phase.
    pub(crate) fn begin(&self, phase: &Phase) -> io::Result<()> {
        self.stale.set(0);
        self.write(&format!("\n== {}: {}\n", phase.name, phase.story))
    }

    /// Prints a command.
    pub(crate) fn command(&self, words: &str) -> io::Result<()> {
        self.write(&format!("   # ratelimit {words}\n"))
    }

    /// Prints the last second.
    pub(crate) fn show(
        &self,
        interval: &Interval,
        requests: &Requests,
        phase: &Phase,
        left: Duration,
    ) -> io::Result<()> {
        let table = table(interval, requests, phase, left).map_err(io::Error::other)?;
        let mut text = String::new();
        if self.is_terminal && self.stale.get() > 0 {
            // Moves to the first line of the table and clears the rest of the screen.
            text = format!("\x1b[{}A\x1b[J", self.stale.get());
        }
        text += &table;
        self.stale.set(table.lines().count());
        self.write(&text)
    }

    fn write(&self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }
}

fn table(interval: &Interval, requests: &Requests, phase: &Phase, left: Duration) -> Result<String, std::fmt::Error> {
    let mut table = String::new();
    let time = interval.time();
    writeln!(table)?;
    writeln!(
        table,
        "{:<17} {:<10} {:>11} {:>11} {:>11} {:>7} {:>9}",
        "source", "role", "offered/s", "passed/s", "dropped/s", "pages/s", "median"
    )?;
    for (index, (source, packets)) in SOURCES.iter().zip(interval.packets).enumerate() {
        let [offered, passed, dropped] =
            [packets.offered, packets.passed, packets.dropped].map(|count| words::rate(count, time));
        write!(table, "{:<17} {:<10} {offered:>11} {passed:>11} {dropped:>11}", source.name, source.role)?;
        if index == CLIENT {
            let pages = words::rate((requests.count() - requests.failed()) as u64, time);
            write!(table, " {pages:>7} {:>9}", words::latency(requests.latency(0.5)))?;
        }
        writeln!(table)?;
    }
    let number = PHASES.iter().take_while(|other| other.name != phase.name).count() + 1;
    writeln!(table, "phase {number} of {}: {}, {:.0} s left", PHASES.len(), phase.name, left.as_secs_f64())?;
    Ok(table)
}
