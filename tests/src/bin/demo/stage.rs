//! The sandbox with all who act in it.

use std::{
    fs, mem,
    num::NonZero,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use ratelimit_tests::{Flood, Frame, PEER_LINK, Ratelimit, Running, Sandbox, VICTIM_IPV4, VICTIM_LINK};

use crate::{
    client::Client,
    phase::{CLIENT, FLOODS, Phase, SOURCES, Source},
    sample::{self, Interval, Packets, Sample},
    screen::Screen,
    wiring,
};

/// The port of the victim that the floods are sent to. Nobody listens there.
const DISCARD: u16 = 9;

/// Gives the web client its address, and lays the wires.
pub(crate) fn prepare(sandbox: &Sandbox) -> Result<()> {
    let client = SOURCES[CLIENT].address;
    sandbox.add_peer_address(client);
    let route = format!("route add {VICTIM_IPV4} dev {PEER_LINK} src {client}");
    let status = sandbox.peer(|| Command::new("ip").args(route.split(' ')).status())?;
    ensure!(status.success(), "ip {route}: {status}");
    wiring::lay(sandbox);
    Ok(())
}

/// The CPU that sends the floods.
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

/// A phase that is over.
#[derive(Debug)]
pub(crate) struct Played {
    pub(crate) phase: &'static Phase,
    /// Taken when its commands had returned.
    pub(crate) first: Sample,
    /// Taken before those of the next phase.
    pub(crate) last: Sample,
}

impl Played {
    /// What happened in it.
    pub(crate) fn interval(&self) -> Interval {
        self.last.since(&self.first)
    }
}

/// How it was when all was over.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) packets: [Packets; SOURCES.len()],
    /// Packets of all reasons together but link discovery.
    pub(crate) counted: u64,
    pub(crate) pins: usize,
}

impl<'a> Stage<'a> {
    /// Puts the product in front of the victim, without any limit yet.
    pub(crate) fn new(sandbox: &'a Sandbox, client: &'a Client, screen: &'a Screen) -> Result<Self> {
        let stage = Self { sandbox, ratelimit: Ratelimit::new(sandbox), client, screen, floods: Vec::new() };
        stage.command(&format!("attach {VICTIM_LINK}"))?;
        Ok(stage)
    }

    /// Gives the commands of `phase`, and shows what happens while it lasts.
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

    /// Stops the floods, counts to the last packet, and removes the product.
    pub(crate) fn end(mut self) -> Result<End> {
        let sent: Vec<_> = mem::take(&mut self.floods).into_iter().map(Running::stop).collect();
        // What is still in a queue has been sent, but not yet judged.
        thread::sleep(Duration::from_millis(200));
        let mut packets = self.sample()?.packets;
        for (packets, sent) in packets[FLOODS..].iter_mut().zip(sent) {
            packets.offered = sent;
        }
        let counted = sample::counted(&serde_json::from_str(&self.operate("status --json")?)?)?;
        self.command("detach --all")?;
        Ok(End { packets, counted, pins: self.sandbox.pins().len() })
    }

    /// Gives a command, and says so.
    fn command(&self, words: &str) -> Result<()> {
        self.screen.command(words)?;
        self.operate(words).map(drop)
    }

    /// Runs `ratelimit` with these words, and returns what it prints.
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
            let (passed, dropped) = sample::judged(&listed, source.name)?;
            *packets = Packets { offered: 0, passed, dropped };
        }
        for (packets, flood) in packets[FLOODS..].iter_mut().zip(&self.floods) {
            packets.offered = flood.sent();
        }
        let read = |file: &str| fs::read_to_string(format!("/proc/thread-self/net/{file}"));
        // Floods are not sent by the peer's network stack, so what it has sent is the web client's.
        packets[CLIENT].offered = sample::snmp(&self.sandbox.peer(|| read("snmp"))?, "Ip", "OutRequests")?;
        let (snmp, snmp6) = self.sandbox.victim(|| (read("snmp"), read("snmp6")));
        let handled = sample::snmp(&snmp?, "Udp", "NoPorts")? + sample::snmp6(&snmp6?, "Udp6NoPorts")?;
        Ok(Sample { begin, end: Instant::now(), packets, handled })
    }
}
