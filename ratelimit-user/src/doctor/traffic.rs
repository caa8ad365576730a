//! Observes traffic for a second: whether the program sees the received packets, and how many are lost before it.
//!
//! Counters of the program are read before and after those of the interfaces. So the program could have seen every
//! packet that the interfaces counted. Its counters are one sum for all interfaces. So the finding about one interface
//! is a lower bound: its received packets minus *all* packets that the program saw. If no single interface is certain,
//! the sums are compared. A suspicion is measured again, because some drivers count late.
//!
//! The program's own drops are subtracted from a driver's drops, because some drivers count them too. Private counters
//! (`ethtool -S`) are not read: the kernel writes as many as the driver has, whatever the size of the buffer.

use std::{
    thread,
    time::{Duration, Instant},
};

use ratelimit_common::reason::Reason;
use ratelimit_dataplane::{
    Error,
    readings::gauges,
    sys::{
        ethtool::{Ethtool, Rings},
        interface::{self, Attached, Interface, Received},
    },
    tables::open::Tables,
};

use super::{
    finding::{Check, Finding, count},
    instance::{Ours, Running},
};

/// The time of observation.
const TIME: Duration = Duration::from_secs(1);
/// With fewer packets, there is no finding.
const ENOUGH: u64 = 10;
/// One lost packet in fewer than this number is reported.
const MANY: u64 = 1_000;

/// Counters of the program for all interfaces in total.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counted {
    packets: u64,
    dropped: u64,
    /// Buckets that were created.
    pub(super) created: u64,
    /// Packets that were dropped because no bucket could be created.
    pub(super) not_admitted: u64,
}

/// The changes during the observation.
pub(super) struct Window {
    pub(super) time: Duration,
    interfaces: Vec<Arrived>,
    /// Packets that the program counted, in a slightly longer time than the interfaces.
    pub(super) counted: Option<Counted>,
}

/// Packets of one interface.
#[derive(Debug, Clone)]
struct Arrived {
    index: u32,
    name: String,
    /// The mode of the program, if it is attached there.
    mode: Option<Attached>,
    during: Received,
    /// Packets since the interface was created.
    ever: Received,
}

impl Window {
    /// Observes these interfaces for a second. Repeats it if the program saw too few packets, because some drivers
    /// count late.
    pub(super) fn measure(chosen: &[Interface], running: Option<&Running>, ours: &Ours) -> Result<Self, Error> {
        let window = Self::look(chosen, running, ours)?;
        if window.unseen().next().is_none() { Ok(window) } else { Self::look(chosen, running, ours) }
    }

    fn look(chosen: &[Interface], running: Option<&Running>, ours: &Ours) -> Result<Self, Error> {
        let counted = || running.map(|running| Counted::read(&running.tables)).transpose();
        let counted_before = counted()?;
        let begin = Instant::now();
        let before = interface::list()?;
        if !chosen.is_empty() {
            thread::sleep(TIME);
        }
        let after = interface::list()?;
        let time = begin.elapsed();
        let counted = counted_before.zip(counted()?).map(|(before, after)| after.since(before));
        let find = |all: &[Interface], index| all.iter().find(|interface| interface.index == index).cloned();
        let arrived = |interface: &Interface| {
            let (before, after) = (find(&before, interface.index)?, find(&after, interface.index)?);
            let is_ours = ours.has(interface);
            Some(Arrived {
                index: after.index,
                name: after.name,
                mode: after.program.filter(|_| is_ours).map(|program| program.mode),
                during: since(after.received, before.received),
                ever: after.received,
            })
        };
        Ok(Self { time, interfaces: chosen.iter().filter_map(arrived).collect(), counted })
    }

    /// Returns interfaces with packets that the program certainly did not see, and their number.
    fn unseen(&self) -> impl Iterator<Item = (&Arrived, u64)> {
        let seen = self.counted.map_or(u64::MAX, |counted| counted.packets);
        let ours = self.interfaces.iter().filter(|arrived| arrived.mode.is_some());
        ours.filter_map(move |arrived| {
            let received = arrived.during.packets;
            (received >= ENOUGH && seen < received / 2).then(|| (arrived, received - seen))
        })
    }
}

impl Counted {
    fn read(tables: &Tables) -> Result<Self, Error> {
        let mut counted = Self { created: gauges::of_cpus(tables)?.admitted, ..Self::default() };
        for (reason, count) in tables.counts()? {
            counted.packets += count.packets;
            if !reason.passes() {
                counted.dropped += count.packets;
            }
            if reason == Reason::NotAdmitted {
                counted.not_admitted += count.packets;
            }
        }
        counted.packets += tables.shadow_counts()?.iter().map(|(_, count)| count.packets).sum::<u64>();
        Ok(counted)
    }

    fn since(self, before: Self) -> Self {
        Self {
            packets: self.packets.saturating_sub(before.packets),
            dropped: self.dropped.saturating_sub(before.dropped),
            created: self.created.saturating_sub(before.created),
            not_admitted: self.not_admitted.saturating_sub(before.not_admitted),
        }
    }
}

fn since(after: Received, before: Received) -> Received {
    Received {
        packets: after.packets.saturating_sub(before.packets),
        missed: after.missed.saturating_sub(before.missed),
        dropped: after.dropped.saturating_sub(before.dropped),
    }
}

/// Returns the findings about packets that the program does not see.
pub(super) fn unseen(window: &Window) -> Vec<Finding> {
    let Window { time, interfaces, counted: Some(counted) } = window else { return Vec::new() };
    let ours = || interfaces.iter().filter(|arrived| arrived.mode.is_some());
    if ours().next().is_none() {
        return Vec::new();
    }
    let blind: Vec<Finding> = window.unseen().map(|(arrived, unseen)| blind(arrived, unseen, *time)).collect();
    if !blind.is_empty() {
        return blind;
    }
    let received: u64 = ours().map(|arrived| arrived.during.packets).sum();
    let names: Vec<&str> = ours().map(|arrived| arrived.name.as_str()).collect();
    let names = names.join(", ");
    if received >= ENOUGH && counted.packets < received / 2 {
        let unseen = received - counted.packets;
        let what = format!(
            "the program did not see {unseen} of {received} packets that {names} received in {}",
            seconds(*time)
        );
        let why = "One of these drivers delivers packets without running the program. Run this again while only one interface has traffic.";
        return vec![Finding::error(Check::Traffic, &what, why)];
    }
    let result =
        if received < ENOUGH { "too few packets arrived for a check" } else { "the program sees the received packets" };
    let what = format!("{result} ({} in {})", count(received, "packet"), seconds(*time));
    vec![Finding::ok(Check::Traffic, &what)]
}

fn blind(arrived: &Arrived, unseen: u64, time: Duration) -> Finding {
    let (name, received) = (&arrived.name, arrived.during.packets);
    let what = format!("the program did not see {unseen} of {received} packets that arrived in {}", seconds(time));
    let why = "The driver delivers packets without running the program, so nothing is limited there. Attach it with its --shadow and --capacity, if it has them.";
    let finding = Finding::error(Check::Traffic, &what, why).on(name);
    match arrived.mode {
        Some(Attached::Generic) => finding,
        _ => finding.fixed_by(format!("ratelimit detach {name} && ratelimit attach {name} --mode generic")),
    }
}

/// Returns the finding about packets that are lost before the program. Returns None if the interface was removed
/// meanwhile.
pub(super) fn losses(interface: &Interface, window: &Window) -> Result<Option<Finding>, Error> {
    let Some(arrived) = window.interfaces.iter().find(|arrived| arrived.index == interface.index) else {
        return Ok(None);
    };
    let ours = window.counted.map_or(0, |counted| counted.dropped);
    Ok(Some(lost(arrived, ours, window.time, Ethtool::of(&arrived.name)?.rings())))
}

/// Returns the finding about lost packets. `ours` are drops of the program, which some drivers count too.
fn lost(arrived: &Arrived, ours: u64, time: Duration, rings: Option<Rings>) -> Finding {
    let Arrived { name, during, ever, .. } = arrived;
    let dropped = during.dropped.saturating_sub(ours);
    let is_much = |lost: u64, received: u64| lost >= ENOUGH && lost > received / MANY;
    let why = "Packets of allowed sources are lost there like all others.";
    let finding = if is_much(during.missed + dropped, during.packets) {
        let Received { packets, missed, .. } = during;
        let what = format!(
            "in {}, {packets} packets arrived; the card lost {missed}, driver or stack {dropped}",
            seconds(time)
        );
        Finding::warning(Check::Losses, &what, why)
    } else if is_much(ever.missed, ever.packets) {
        let Received { packets, missed, .. } = ever;
        let what = format!("since the interface was created, {packets} packets arrived, and the card lost {missed}");
        Finding::note(Check::Losses, &what, why)
    } else {
        return Finding::ok(Check::Losses, &format!("none in {}", seconds(time))).on(name);
    };
    match rings.filter(|rings| rings.now < rings.most) {
        Some(Rings { most, .. }) => finding.on(name).fixed_by(format!("ethtool -G {name} rx {most}")),
        None => finding.on(name),
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::{super::finding::Severity, *};

    const SECOND: Duration = Duration::from_secs(1);

    fn arrived(name: &str, packets: u64) -> Arrived {
        let during = Received { packets, ..Received::default() };
        Arrived { index: 2, name: name.to_owned(), mode: Some(Attached::Native), during, ever: during }
    }

    fn look(interfaces: Vec<Arrived>, packets: u64) -> Vec<Finding> {
        let counted = Some(Counted { packets, ..Counted::default() });
        unseen(&Window { time: SECOND, interfaces, counted })
    }

    #[test]
    fn uncounted_packets_of_one_interface_were_not_seen() {
        let findings = look(vec![arrived("eth0", 1_000)], 0);
        assert_eq!(findings[0].what, "the program did not see 1000 of 1000 packets that arrived in 1.0 s");
        assert_eq!(findings[0].fix.as_deref(), Some("ratelimit detach eth0 && ratelimit attach eth0 --mode generic"));
        let findings = look(vec![arrived("eth0", 1_000)], 999);
        assert_eq!(findings[0].what, "the program sees the received packets (1000 packets in 1.0 s)");
        assert_eq!(look(vec![arrived("eth0", ENOUGH - 1)], 0)[0].severity, Severity::Ok);
    }

    #[test]
    fn of_several_interfaces_a_certain_one_is_named_or_else_all() {
        let one = look(vec![arrived("eth0", 1_000), arrived("eth1", 100)], 100);
        assert_eq!((one.len(), one[0].interface.as_deref()), (1, Some("eth0")));
        assert_eq!(one[0].what, "the program did not see 900 of 1000 packets that arrived in 1.0 s");
        let all = look(vec![arrived("eth0", 100), arrived("eth1", 100), arrived("eth2", 100)], 100);
        assert_eq!((all.len(), all[0].severity, all[0].interface.as_deref()), (1, Severity::Error, None));
        assert_eq!(all[0].what, "the program did not see 200 of 300 packets that eth0, eth1, eth2 received in 1.0 s");
        // Packets of an interface without the program do not count.
        let other = Arrived { mode: None, ..arrived("eth1", 10_000) };
        assert_eq!(look(vec![arrived("eth0", 100), other], 100)[0].severity, Severity::Ok);
    }

    #[test]
    fn drops_of_the_program_are_no_loss_and_those_of_the_card_are() {
        let with = |missed, dropped| {
            let during = Received { packets: 10_000, missed, dropped };
            Arrived { during, ever: during, ..arrived("eth0", 0) }
        };
        let rings = Some(Rings { now: 256, most: 4_096 });
        assert_eq!(lost(&with(0, 5_000), 5_000, SECOND, rings).severity, Severity::Ok);
        assert_eq!(lost(&with(10, 0), 0, SECOND, rings).severity, Severity::Ok);
        let finding = lost(&with(11, 5_000), 5_000, SECOND, rings);
        assert_eq!(finding.what, "in 1.0 s, 10000 packets arrived; the card lost 11, driver or stack 0");
        assert_eq!((finding.severity, finding.fix.as_deref()), (Severity::Warning, Some("ethtool -G eth0 rx 4096")));
        assert_eq!(lost(&with(11, 0), 0, SECOND, Some(Rings { now: 4_096, most: 4_096 })).fix, None);
        let long_ago = Arrived { during: Received::default(), ..with(11, 0) };
        assert_eq!(lost(&long_ago, 0, SECOND, rings).severity, Severity::Note);
    }
}
