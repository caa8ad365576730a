//! The sandbox with its server, client and floods.

use std::{
    fs, mem,
    num::NonZero,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use ratelimit_sandbox::{Flood, Frame, PEER_LINK, Ratelimit, Running, Sandbox, VICTIM_IPV4, VICTIM_LINK};

use crate::{
    client::Client,
    phase::{CLIENT, FLOODS, Phase, SOURCES, Source},
    sample::{self, Interval, Packets, Sample},
    screen::Screen,
    wiring,
};

/// The victim's port of the floods, without a listener.
const DISCARD: u16 = 9;

/// Gives the web client its address, and assigns the CPUs.
pub(crate) fn prepare(sandbox: &Sandbox) -> Result<()> {
    let client = SOURCES[CLIENT].address;
    sandbox.add_peer_address(client);
    let route = format!("route add {VICTIM_IPV4} dev {PEER_LINK} src {client}");
    let status = sandbox.peer(|| Command::new("ip").args(route.split(' ')).status())?;
    ensure!(status.success(), "ip {route}: {status}");
    wiring::lay(sandbox);
    Ok(())
}

/// Returns the CPU that sends the floods.
fn last_cpu() -> usize {
    thread::available_parallelism().map_or(0, |count| NonZero::get(count) - 1)
}

/// Everything that the phases need.
pub(crate) struct Stage<'a> {
    sandbox: &'a Sandbox,
    ratelimit: Ratelimit<'a>,
    client: &'a Client,
    screen: &'a Screen,
    floods: Vec<Running>,
}

/// A completed phase.
#[derive(Debug)]
pub(crate) struct Played {
    pub(crate) phase: &'static Phase,
    /// Taken after its commands.
    pub(crate) first: Sample,
    /// Taken before the commands of the next phase.
    pub(crate) last: Sample,
}

impl Played {
    /// Returns the difference of both samples.
    pub(crate) fn interval(&self) -> Interval {
        self.last.since(&self.first)
    }
}

/// The state at the end.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) packets: [Packets; SOURCES.len()],
    /// Packets of all reasons without link discovery.
    pub(crate) counted: u64,
    pub(crate) pins: usize,
}

impl<'a> Stage<'a> {
    /// Attaches the product to the victim, without a limit.
    pub(crate) fn new(sandbox: &'a Sandbox, client: &'a Client, screen: &'a Screen) -> Result<Self> {
        let stage = Self { sandbox, ratelimit: Ratelimit::new(sandbox), client, screen, floods: Vec::new() };
        stage.command(&format!("attach {VICTIM_LINK}"))?;
        Ok(stage)
    }

    /// Runs the commands of `phase`, and prints the counters during it.
    pub(crate) fn play(&mut self, phase: &'static Phase) -> Result<Played> {
        self.screen.begin(phase)?;
        for words in (phase.commands)() {
            self.command(&words)?;
        }
        if phase.flooded && self.floods.is_empty() {
            let flood =
                |source: &Source| Flood::of(Frame::udp(source.address, DISCARD)).on_cpu(last_cpu()).start(self.sandbox);
            self.floods = SOURCES[FLOODS..].iter().map(flood).collect();
        }
        let first = self.sample()?;
        let mut last = first;
        let end = first.end + phase.time;
        while last.end < end {
            let next = end.min(last.end + Duration::from_secs(1));
            thread::sleep(next.saturating_duration_since(Instant::now()));
            let sample = self.sample()?;
            let left = end.saturating_duration_since(sample.end);
            self.screen.show(
                &sample.since(&last),
                &self.client.requests().between(last.end, sample.end),
                phase,
                left,
            )?;
            last = sample;
        }
        Ok(Played { phase, first, last })
    }

    /// Stops the floods, reads the final counters, and removes the product.
    pub(crate) fn end(mut self) -> Result<End> {
        let sent: Vec<_> = mem::take(&mut self.floods).into_iter().map(Running::stop).collect();
        // Packets in a queue have been sent, but not counted yet.
        thread::sleep(Duration::from_millis(200));
        let mut packets = self.sample()?.packets;
        for (packets, sent) in packets[FLOODS..].iter_mut().zip(sent) {
            packets.offered = sent;
        }
        let counted = sample::counted(&serde_json::from_str(&self.operate("status --json")?)?)?;
        self.command("detach --all")?;
        Ok(End { packets, counted, pins: self.sandbox.pins().len() })
    }

    /// Prints and runs a command.
    fn command(&self, words: &str) -> Result<()> {
        self.screen.command(words)?;
        self.operate(words).map(drop)
    }

    /// Runs `ratelimit WORDS` and returns its output.
    fn operate(&self, words: &str) -> Result<String> {
        let output = self.ratelimit.run(words);
        ensure!(output.status == 0, "`ratelimit {words}` failed with exit status {}: {}", output.status, output.stderr);
        Ok(output.stdout)
    }

    fn sample(&self) -> Result<Sample> {
        let begin = Instant::now();
        let listed = serde_json::from_str(&self.operate("sources --json -n 1000")?)?;
        let mut packets = [Packets::default(); SOURCES.len()];
        for (source, packets) in SOURCES.iter().zip(&mut packets) {
            let (passed, dropped) = sample::packets_of(&listed, source.name)?;
            *packets = Packets { offered: 0, passed, dropped };
        }
        for (packets, flood) in packets[FLOODS..].iter_mut().zip(&self.floods) {
            packets.offered = flood.sent();
        }
        let read = |file: &str| fs::read_to_string(format!("/proc/thread-self/net/{file}"));
        // The peer's network stack does not send floods, so its packets are the web client's.
        packets[CLIENT].offered = sample::snmp(&self.sandbox.peer(|| read("snmp"))?, "Ip", "OutRequests")?;
        let (snmp, snmp6) = self.sandbox.victim(|| (read("snmp"), read("snmp6")));
        let handled = sample::snmp(&snmp?, "Udp", "NoPorts")? + sample::snmp6(&snmp6?, "Udp6NoPorts")?;
        Ok(Sample { begin, end: Instant::now(), packets, handled })
    }
}
