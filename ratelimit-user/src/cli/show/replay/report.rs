//! A judged capture as text and as JSON.

use std::{
    io::{self, Write},
    path::Path,
    time::{Duration, UNIX_EPOCH},
};

use jiff::Timestamp;
use ratelimit_base::text::{excerpt::escaped, prefix::Prefix, units::write_duration};
use ratelimit_common::{identity::source::Source, reason::Count};
use ratelimit_daemon::config::Config;
use serde::Serialize;

use super::notes;
use crate::{
    cli::print::output::{self, Traffic},
    replay::{judge::Judged, tally::Fate},
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
    /// Packets of sources that were forgotten because there were too many.
    forgotten: Row,
    /// Sources that were not forgotten.
    sources: usize,
    /// Whether no source was forgotten.
    is_complete: bool,
    worst: Vec<OfSource>,
    /// Packets that the host has sent, those that are too short, those without their addresses, and those without headers
    /// that the rules need. They are not judged.
    outgoing: u64,
    too_short: u64,
    without_addresses: u64,
    without_headers: u64,
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
            forgotten: Row::of(&tally.forgotten),
            sources: tally.len(),
            is_complete: tally.rounds == 0,
            worst: tally.worst(top).into_iter().map(of_source).collect(),
            outgoing: judged.outgoing,
            too_short: judged.short,
            without_addresses: judged.without_addresses,
            without_headers: judged.without_headers,
            over_in_shadow: judged.in_shadow,
            notes: notes::of(config, judged),
            span: judged.span,
        }
    }

    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { capture, config, total, not_ip, forgotten, sources, worst, .. } = self;
        let since = self.start.map_or_else(String::new, |start| format!(" from {start:.0}"));
        let packets = output::count(total.all.packets as usize, "packet");
        writeln!(out, "{capture}: {packets} in {}{since}, judged by {config}", write_duration(self.span))?;
        if total.all.packets != 0 {
            let others = [("forgotten", forgotten), ("not IP", not_ip)].into_iter();
            let others = others.filter(|(_, row)| row.all.packets != 0).map(|(name, row)| row.cells(name.to_owned()));
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

#[cfg(test)]
mod tests {
    use ratelimit_common::reason::Reason;

    use super::*;
    use crate::replay::tally::Tally;

    #[test]
    fn forgotten_sources_have_a_row() {
        let (mut tally, mut forgotten) = (Tally::default(), Tally::default());
        tally.add(Some(Source::v4([192, 0, 2, 1])), 60, Some(Reason::OverPackets));
        tally.add(Some(Source::v4([192, 0, 2, 2])), 60, None);
        (0..7).for_each(|_| forgotten.add(None, 60, None));
        (tally.forgotten, tally.rounds) = (forgotten.total, 1);
        let judged = Judged { tally, ..Judged::default() };
        let report = Report::new("day.pcap".to_owned(), Path::new("trial.toml"), &Config::default(), &judged, 1);
        let mut text = Vec::new();
        report.write(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let rows: Vec<Vec<_>> = text.lines().skip(3).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(
            rows[..3],
            [vec!["192.0.2.1", "1", "0", "1", "over-packets"], vec!["1", "more"], vec!["forgotten", "7", "7", "0"]]
        );
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!((&json["forgotten"]["all"]["packets"], &json["is_complete"]), (&7.into(), &false.into()));
    }
}
