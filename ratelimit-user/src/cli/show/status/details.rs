//! The rest of the status as text.

use std::{
    io::{self, Write},
    time::Duration,
};

use ratelimit_base::text::units::{self, PacketRate};
use ratelimit_common::{
    limits::limit::{Rate, SECOND},
    reason::Reason,
};

use super::{
    admission::Admission,
    map_memory::MapMemory,
    report::{Clock, Front, Own, Replies, Sources, Status},
    unknown::Unknown,
};
use crate::cli::print::output::{self, Traffic};

pub(super) fn write(out: &mut dyn Write, status: &Status) -> io::Result<()> {
    let Sources { tracked, buckets, max, estimated } = status.sources;
    let about = if estimated { "about " } else { "" };
    writeln!(
        out,
        "sources: {about}{tracked} tracked, in {buckets} of {max} buckets; an IPv6 source is a /{}",
        status.ipv6_prefix
    )?;
    admission(out, &status.admission)?;
    match &status.unknown {
        Some(known) => unknown(out, known)?,
        None => writeln!(out, "unknown sources: not limited")?,
    }
    own(out, status.own.as_ref())?;
    replies(out, &status.replies)?;
    front(out, status.front.as_ref())?;
    if status.malformed == "pass" {
        writeln!(out, "malformed packets: pass if the rules for their source allow")?;
    }
    let sample = match (status.front.is_some(), status.sample) {
        (true, true) => "one in 256 packets within limits is recorded",
        (true, false) => "off",
        (false, _) => "not needed, because every packet is counted for its source",
    };
    writeln!(out, "samples: {sample}")?;
    clock(out, &status.clock)?;
    writeln!(out, "races lost to another CPU: {}", status.lost_races)?;
    writeln!(out, "memory of all maps: {:.1} MB", status.memory.bytes as f64 / 1e6)?;
    writeln!(out)?;
    reasons(out, status)?;
    writeln!(out)?;
    let row = |map: &MapMemory| [map.name.to_owned(), map.entries.to_string(), map.bytes.to_string()];
    let rows: Vec<_> = status.memory.maps.iter().map(row).collect();
    output::table(out, ["map", "entries", "bytes"], &rows)
}

fn admission(out: &mut dyn Write, admission: &Admission) -> io::Result<()> {
    let Admission { created, refused, failed, bans_failed, cpus, .. } = *admission;
    write!(out, "buckets created: {created}")?;
    if admission.per_second_and_cpu.is_some() {
        write!(out, "; packets dropped because none could be created: {refused}")?;
    }
    if failed > 0 {
        write!(out, "; failed inserts: {failed}")?;
    }
    if bans_failed > 0 {
        write!(out, "; bans lost because their table is full: {bans_failed}")?;
    }
    writeln!(out)?;
    let mut estimates = Vec::new();
    if let (Some(rate), Some(stay)) = (admission.per_second_and_cpu, admission.idle_at_full_budget_seconds) {
        estimates.push(format!("{} at the full budget ({} per CPU, {cpus} CPUs)", seconds(stay), per_second(rate)));
    }
    if let Some(stay) = admission.idle_so_far_seconds {
        estimates.push(format!("{} at the rate so far", seconds(stay)));
    }
    if estimates.is_empty() {
        return Ok(());
    }
    writeln!(out, "unused buckets stay for about {}", estimates.join(", "))
}

fn unknown(out: &mut dyn Write, unknown: &Unknown) -> io::Result<()> {
    let Unknown { known, passed, refused, proofs, .. } = unknown;
    writeln!(out, "unknown sources: {unknown}; {passed} packets passed, {refused} dropped; known sources: {known}")?;
    proofs.write(out)
}

fn own(out: &mut dyn Write, own: Option<&Own>) -> io::Result<()> {
    let Some(&Own { per_second: rate, passed, looked_up, not_looked_up }) = own else {
        return writeln!(out, "own connections: limited like all others");
    };
    let rate = per_second(rate);
    write!(
        out,
        "own connections: spared up to {rate} from each source; {passed} packets passed, {looked_up} looked up"
    )?;
    if not_looked_up > 0 {
        write!(out, "; {not_looked_up} refused without a look-up, because the budget was spent")?;
    }
    writeln!(out)
}

fn replies(out: &mut dyn Write, replies: &Replies) -> io::Result<()> {
    let Replies { per_second: rate, sent, unsent, .. } = *replies;
    let rate = if rate == 0 { "none".to_owned() } else { format!("{} in total", per_second(rate)) };
    writeln!(out, "answers to rejected packets: {rate}; {sent} sent, {unsent} not sent")
}

fn front(out: &mut dyn Write, front: Option<&Front>) -> io::Result<()> {
    let Some(Front { cells, crowded, displaced_refusals }) = front else {
        return writeln!(out, "cells: off, every source has its own bucket");
    };
    let crowded = crowded.unwrap_or(0);
    writeln!(out, "cells: {cells}, {crowded} of them shared by several sources over the default limit")?;
    writeln!(out, "cached refusals replaced by those of other sources: {displaced_refusals}")
}

fn clock(out: &mut dyn Write, clock: &Clock) -> io::Result<()> {
    let Clock { default, coarse_rules: coarse, precise_rules: precise, .. } = *clock;
    let tick = clock.tick_nanoseconds as f64 / 1e6;
    let default = match default {
        Some("coarse") => format!("coarse (ticks of {tick} ms)"),
        Some(name) => name.to_owned(),
        None => "none".to_owned(),
    };
    writeln!(out, "clock of the default limit: {default}; limits by clock: {coarse} coarse, {precise} precise")
}

fn reasons(out: &mut dyn Write, status: &Status) -> io::Result<()> {
    let row = |name: &str, verdict: &str, traffic: &Traffic| {
        [name.to_owned(), verdict.to_owned(), traffic.packets.to_string(), traffic.bytes.to_string()]
    };
    let mut rows = Vec::new();
    for reason in Reason::ALL {
        let traffic = &status.reasons[reason.name()];
        if traffic.packets > 0 {
            rows.push(row(reason.name(), if reason.passes() { "passed" } else { "dropped" }, traffic));
        }
    }
    for reason in Reason::ALL {
        if let Some(traffic) = status.shadow.reasons.get(reason.name()) {
            rows.push(row(reason.name(), "would drop", traffic));
        }
    }
    rows.push(row("all", "passed", &status.passed));
    rows.push(row("all", "dropped", &status.dropped));
    output::table(out, ["reason", "verdict", "packets", "bytes"], &rows)
}

fn per_second(amount: u64) -> PacketRate {
    PacketRate(Rate { amount, period: SECOND })
}

fn seconds(seconds: f64) -> String {
    // A hundred years at most.
    units::write_duration(Duration::from_secs_f64(seconds.min(3e9).round().max(1.0)))
}
