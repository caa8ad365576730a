//! The lines of the demo.

use std::net::Ipv4Addr;

use crate::phase::{JUDGED, Phase};

/// The source.
pub(crate) const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 66);
/// The port of its packets.
pub(crate) const PORT: u16 = 9;
/// Packets per second of the limit.
pub(crate) const RATE: u64 = 1_000;
/// Packets per second that the source sends to each host.
pub(crate) const OFFERED: [u64; 3] = [6_000, 3_000, 1_500];

/// Packets per second of one character of a bar.
const CHARACTER: usize = 50;

/// Returns the file of a host's daemon.
pub(crate) fn file(url: &str, number: usize) -> String {
    format!(
        "interfaces = [\"eth0\"]\n[default]\npackets = \"{RATE}/s\"\nburst = 100\n\
         [fleet]\nengine = \"{url}\"\nname = \"host{number}\"\n"
    )
}

pub(crate) fn introduce() {
    println!("Three hosts in namespaces, and a Redis server. The limit is {RATE} packets/s for each source.");
    println!("One source sends {OFFERED:?} packets/s to the hosts. Each # is {CHARACTER} admitted packets/s.");
}

/// Prints the title of a phase.
pub(crate) fn head(phase: &Phase) {
    println!("\n{}", phase.title);
    println!("{:>7}{:>7}{:>7}{:>7}", "host0", "host1", "host2", "sum");
}

/// Prints what each host admitted in a second, and returns the sum.
pub(crate) fn second(rates: &[usize]) -> usize {
    let sum = rates.iter().sum();
    let numbers: String = rates.iter().chain([&sum]).map(|rate| format!("{rate:>7}")).collect();
    println!("{numbers}  {}", "#".repeat(sum / CHARACTER));
    sum
}

/// Prints whether a phase is as promised, by the mean of its last seconds as a part of the limit.
pub(crate) fn judge(phase: &Phase, mean: f64) -> bool {
    let (least, most) = (phase.promised.start(), phase.promised.end());
    let holds = phase.promised.contains(&mean);
    let verdict = if holds { "as promised" } else { "NOT as promised" };
    println!("Last {JUDGED} seconds: {mean:.2} of the limit, {verdict} ({least} to {most}).");
    holds
}

pub(crate) fn conclude(has_held: bool) {
    let outcome = if has_held { "Every promise was kept." } else { "A promise was broken." };
    println!("\n{outcome} Nothing is left behind.");
}
