//! The place of the measurement: a web server, its visitors and the reception of a flood share one CPU.

use std::{
    cell::Cell,
    net::{Ipv4Addr, TcpStream},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use ratelimit_tests::{
    Nginx, PEER_LINK, Running, Sandbox, Sink, VICTIM_IPV4, VICTIM_LINK, receive_by_timer, set_queues,
};

use super::{
    layout::{CPU, OUTSIDE, PAGE, Sender, VISITORS},
    losses::Losses,
    protection::Protection,
    visit,
    visited::Visited,
};
use crate::{
    flood::{Kind, Rate, SERVER_PORT},
    measure::{pin, receptions::Receptions},
};

/// Time between two interrupts of the network card.
const INTERRUPTS: Duration = Duration::from_micros(50);
/// Time in which the timers of both rings have received some hundred times.
const TIMERS: Duration = Duration::from_millis(20);
/// Time in which a flood spends the rate of unknown sources, and fills the queue of the server.
const WARM_UP: Duration = Duration::from_millis(400);

/// A sandbox whose packets arrive at one CPU.
pub(super) struct Stage {
    pub(super) sandbox: Sandbox,
    sender: Sender,
    /// Visitors so far. Each of them is new.
    visitors: Cell<u32>,
    /// Answers to the flood end where they leave the host.
    _outside: Sink,
}

impl Stage {
    /// Builds it, and moves this thread to its CPU.
    pub(super) fn new(sender: Sender) -> Result<Self> {
        // A link has as many rings as the thread that makes it has CPUs.
        let sandbox = match sender {
            Sender::Same => {
                pin(CPU)?;
                Sandbox::new()
            }
            Sender::Other => {
                let sandbox = Sandbox::new();
                pin(CPU)?;
                sandbox
            }
        };
        let (first, length) = VISITORS;
        let mut route = Command::new("ip");
        route.args(["route", "add", "local", &format!("{first}/{length}"), "dev", "lo"]);
        let output = sandbox.peer(|| route.output()).context("cannot run ip")?;
        ensure!(output.status.success(), "ip: {}", String::from_utf8_lossy(&output.stderr).trim());
        let outside = Sink::passing_to(&sandbox, OUTSIDE);
        if sender == Sender::Other {
            sandbox.victim(|| receive_by_timer(VICTIM_LINK, INTERRUPTS));
        }
        Ok(Self { sandbox, sender, visitors: Cell::new(0), _outside: outside })
    }

    /// Returns the protections that this machine has.
    pub(super) fn protections(&self) -> Vec<Protection> {
        Protection::ALL.into_iter().filter(|protection| protection.is_here(&self.sandbox)).collect()
    }

    /// Starts the server, on the CPU of this thread. Nothing that an earlier flood left waits in its queue.
    fn serve(&self) -> Result<Nginx> {
        Nginx::start(&self.sandbox, SERVER_PORT, "", &".".repeat(PAGE))
    }

    /// Has this CPU receive from all rings. The CPU that puts the first packet into a ring receives from it.
    pub(super) fn receive_here(&self, port: u16) -> Result<()> {
        let connect = || TcpStream::connect((VICTIM_IPV4, port)).context("the server does not accept");
        let sender = self.sender;
        self.sandbox.peer(|| {
            if sender == Sender::Other {
                for [first, second] in [["0", "3"], ["3", "0"]] {
                    set_queues(PEER_LINK, "tx-0", "xps_cpus", first);
                    set_queues(PEER_LINK, "tx-1", "xps_cpus", second);
                    connect()?;
                }
            }
            connect().map(drop)
        })?;
        if sender == Sender::Other {
            let before = Receptions::now()?;
            thread::sleep(TIMERS);
            before.check_since_then(CPU)?;
        }
        Ok(())
    }

    /// Starts a flood. In calm, another CPU that sends is busy too, so that this one keeps its speed.
    pub(super) fn flood(&self, kind: Kind, rate: Rate) -> Result<Running> {
        let flood = match (self.sender, rate) {
            (Sender::Same, Rate::None) => kind.as_fast_as_possible().on_cpu(CPU).in_bursts(0),
            (Sender::Same, Rate::PerSecond(packets)) => {
                kind.as_fast_as_possible().on_cpu(CPU).in_bursts(packets.into())
            }
            (Sender::Same, Rate::Most) => bail!("a CPU that only sends does not receive"),
            (Sender::Other, Rate::None) => kind.flood(Rate::PerSecond(1)).context("there is no flood")?,
            (Sender::Other, rate) => kind.flood(rate).context("there is no flood")?,
        };
        let running = flood.start(&self.sandbox);
        thread::sleep(WARM_UP);
        Ok(running)
    }

    /// Returns the first of so many addresses that no visitor had.
    pub(super) fn new_addresses(&self, count: u32) -> Ipv4Addr {
        let used = self.visitors.replace(self.visitors.get() + count);
        Ipv4Addr::from_bits(VISITORS.0.to_bits() + 1 + used)
    }

    /// Has new visitors get the page beside a flood.
    pub(super) fn visit(
        &self,
        (kind, rate, protection): (Kind, Rate, Protection),
        count: u32,
        patience: Duration,
    ) -> Result<Visited> {
        let _standing = protection.set_up(&self.sandbox)?;
        let _server = self.serve()?;
        self.receive_here(SERVER_PORT)?;
        let calm = Losses::so_far(&self.sandbox)?;
        let flood = self.flood(kind, rate)?;
        let begin = Instant::now();
        let (sent_before, before) = (flood.sent(), Losses::so_far(&self.sandbox)?);
        let first = self.new_addresses(count);
        let times = self.sandbox.peer(|| visit::all(first, count, patience))?;
        let sent = flood.sent() - sent_before;
        let lost = Losses::so_far(&self.sandbox)?.since(before).flood;
        let seconds = begin.elapsed().as_secs_f64();
        drop(flood);
        let visitors = Losses::so_far(&self.sandbox)?.since(calm).visitors;
        Ok(Visited {
            protocol: kind.protocol,
            rate,
            protection,
            sender: self.sender,
            times,
            patience,
            sent: sent as f64 / seconds,
            received: sent.saturating_sub(lost) as f64 / seconds,
            lost: visitors,
        })
    }
}
