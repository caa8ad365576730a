//! A judged capture as text and as JSON.

use std::{
    io::{self, Write},
    path::Path,
    time::{Duration, UNIX_EPOCH},
};

use jiff::Timestamp;
use ratelimit_common::{identity::source::Source, reason::Count};
use serde::Serialize;

use crate::{
    cli::print::output::{self, Traffic},
    config::Config,
    replay::{judge::Judged, tally::Fate},
    text::{excerpt::escaped, prefix::Prefix, units::write_duration},
};

/// What became of the packets of a capture.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    capture: String,
    config: String,
    /// Time of the first packet. None without packets or times.
    start: Option<Timestamp>,
    seconds: f64,
    total: Row,
    /// Packets that are not IP.
    not_ip: Row,
    /// Sources with a row of their own in memory.
    sources: usize,
    /// Whether there were more sources, which are counted together.
    is_complete: bool,
    worst: Vec<OfSource>,
    /// Packets that the host has sent, and those that are too short. They are not judged.
    outgoing: u64,
    too_short: u64,
    /// Packets that passed over limits in shadow.
    over_in_shadow: u64,
    /// What an operator should know about these figures.
    notes: Vec<String>,
    #[serde(skip)]
    span: Duration,
}

#[derive(Debug, Serialize)]
struct OfSource {
    source: String,
    #[serde(flatten)]
    row: Row,
}

#[derive(Debug, Serialize)]
struct Row {
    all: Traffic,
    passed: Traffic,
    dropped: Traffic,
    /// Dropped packets by reason.
    reasons: Vec<OfReason>,
}

#[derive(Debug, Serialize)]
struct OfReason {
    reason: &'static str,
    packets: u64,
}

impl Report {
    pub(super) fn new(capture: String, path: &Path, config: &Config, judged: &Judged, top: usize) -> Self {
        let tally = &judged.tally;
        let of_source = |(source, fate): (&Source, &Fate)| OfSource {
            source: Prefix::of(source, source.prefix).to_string(),
            row: Row::of(fate),
        };
        let start = judged.start.and_then(|time| Timestamp::try_from(UNIX_EPOCH + Duration::from_nanos(time)).ok());
        Self {
            capture,
            config: escaped(&path.display().to_string()),
            start,
            seconds: judged.span.as_secs_f64(),
            total: Row::of(&tally.total),
            not_ip: Row::of(&tally.others),
            sources: tally.len(),
            is_complete: tally.rounds == 0,
            worst: tally.worst(top).into_iter().map(of_source).collect(),
            outgoing: judged.outgoing,
            too_short: judged.short,
            over_in_shadow: judged.in_shadow,
            notes: notes(config, judged),
            span: judged.span,
        }
    }

    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { capture, config, total, not_ip, sources, worst, .. } = self;
        let since = self.start.map_or_else(String::new, |start| format!(" from {start:.0}"));
        let packets = output::count(total.all.packets as usize, "packet");
        writeln!(out, "{capture}: {packets} in {}{since}, judged by {config}", write_duration(self.span))?;
        if total.all.packets != 0 {
            let others = (not_ip.all.packets != 0).then(|| not_ip.cells("not IP".to_owned()));
            let left = sources.saturating_sub(worst.len());
            let left = (left != 0)
                .then(|| [format!("{left} more"), String::new(), String::new(), String::new(), String::new()]);
            let rows = worst.iter().map(|of| of.row.cells(of.source.clone())).chain(left).chain(others);
            let rows: Vec<_> = rows.chain([total.cells("all".to_owned())]).collect();
            writeln!(out)?;
            output::table(out, ["SOURCE", "PACKETS", "PASSED", "DROPPED", "REASONS"], &rows)?;
        }
        self.notes.iter().try_for_each(|note| writeln!(out, "{note}"))
    }
}

impl Row {
    fn of(fate: &Fate) -> Self {
        let traffic = |count: Count| Traffic { packets: count.packets, bytes: count.bytes };
        let reasons = fate.reasons().into_iter().map(|(reason, packets)| OfReason { reason: reason.name(), packets });
        Self {
            all: traffic(fate.all),
            passed: traffic(fate.passed()),
            dropped: traffic(fate.dropped),
            reasons: reasons.collect(),
        }
    }

    fn cells(&self, name: String) -> [String; 5] {
        let [all, passed, dropped] = [self.all, self.passed, self.dropped].map(|traffic| traffic.packets.to_string());
        let reasons: Vec<String> = match &self.reasons[..] {
            [one] => vec![one.reason.to_owned()],
            several => several.iter().map(|of| format!("{} {}", of.reason, of.packets)).collect(),
        };
        [name, all, passed, dropped, reasons.join(", ")]
    }
}

/// Returns what limits the meaning of the figures.
fn notes(config: &Config, judged: &Judged) -> Vec<String> {
    let packets = |number: u64| output::count(number as usize, "packet");
    let mut notes = Vec::new();
    let mut note = |is_true: bool, text: String| notes.extend(is_true.then_some(text));
    let in_shadow =
        config.requested.shadow == Some(true) || config.interfaces.iter().any(|one| one.shadow == Some(true));
    note(in_shadow, "shadow of the file is ignored: this is what the limits drop without it".to_owned());
    note(
        judged.in_shadow != 0,
        format!("over a limit with over-limit = \"shadow\", and passed: {}", packets(judged.in_shadow)),
    );
    for list in &config.lists {
        if let Err(why) = &list.content {
            note(true, format!("list {} is left out: {} {why}", list.name, list.file.display()));
        }
    }
    note(judged.outgoing != 0, format!("sent by the host, and not judged: {}", packets(judged.outgoing)));
    note(judged.short != 0, format!("shorter than 14 bytes, and not judged: {}", packets(judged.short)));
    note(
        judged.long != 0,
        format!(
            "longer than 1,522 bytes: {}. A host may join several packets before it captures them, and each counts once \
             here. `ethtool -K NAME gro off lro off` ends that",
            packets(judged.long)
        ),
    );
    note(
        judged.set_back != 0,
        format!(
            "the clock of the capture was set back {}: no time passes meanwhile",
            output::count(judged.set_back as usize, "time")
        ),
    );
    note(judged.is_cut, "the capture ends within a packet, which is left out".to_owned());
    note(
        judged.tally.rounds != 0,
        "there are too many sources to keep: those with few packets are only in the last row".to_owned(),
    );
    notes
}
