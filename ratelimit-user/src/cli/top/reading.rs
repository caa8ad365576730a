//! One reading of the instance for the screen. It takes a bounded time, whatever the number of sources.

use std::{collections::BTreeMap, path::Path};

use anyhow::Result;
use ratelimit_base::text::{pasted, prefix::Prefix};
use ratelimit_common::{
    maps::control::{FEATURE_PROVE_TCP, FEATURE_SHADOW},
    reason::Reason,
};
use ratelimit_dataplane::{
    attach::attachment::Attachment,
    instance::read_only,
    lists::listing,
    readings::{
        gauges,
        interface_counters::Shares,
        rates::{Moment, Rates, Verdicts},
        sampling::Few,
    },
    sys::interface::Attached,
    tables::open::Tables,
};

use super::followed::{By, Followed, Sources};
use crate::cli::{
    print::{
        in_shadow,
        source_row::{Describe, Row as SourceRow},
    },
    show::status::{
        diagnosis::{self, Facts, Worst},
        rules::{DefaultLimit, Rules},
    },
};

/// One table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) enum View {
    #[default]
    Sources,
    Services,
    Reasons,
    Interfaces,
}

impl View {
    pub(super) const ALL: [Self; 4] = [Self::Sources, Self::Services, Self::Reasons, Self::Interfaces];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Sources => "sources",
            Self::Services => "services",
            Self::Reasons => "reasons",
            Self::Interfaces => "interfaces",
        }
    }
}

/// One line of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) name: String,
    /// The service of a source, or the verdict of a reason.
    pub(super) kind: String,
    /// Packets per second that passed and that were refused.
    pub(super) per_second: [u64; 2],
    /// Packets that passed and that were refused.
    pub(super) total: [u64; 2],
    /// The policy of a source, or the mode of an interface.
    pub(super) detail: String,
    /// Whether the rates of passed and of refused packets are estimates.
    pub(super) are_estimates: [bool; 2],
    /// The same of all packets that passed and that were refused.
    pub(super) are_totals_estimates: [bool; 2],
    /// What few samples tell of the rates.
    pub(super) few: [Option<Few>; 2],
    /// The source, which can be banned or allowed.
    pub(super) source: Option<Prefix>,
}

/// What the screen shows.
#[derive(Debug, Clone, Default)]
pub(super) struct Reading {
    /// Where limits are enforced.
    pub(super) interfaces: String,
    pub(super) now: Verdicts,
    /// Tracked sources, and whether their number is an estimate.
    pub(super) sources: (usize, bool),
    pub(super) diagnosis: String,
    pub(super) rows: BTreeMap<View, Vec<Row>>,
}

/// Reads again and again.
pub(super) struct Reader<'a> {
    pins: &'a Path,
    sources: Sources,
    all: Option<Moment>,
    interfaces: BTreeMap<u32, Moment>,
    /// Whether there is any rule, in this generation of the rules.
    rules: Option<(u32, bool)>,
}

impl<'a> Reader<'a> {
    pub(super) fn of(pins: &'a Path) -> Self {
        Self { pins, sources: Sources::default(), all: None, interfaces: BTreeMap::new(), rules: None }
    }

    /// Reads the instance, which another command may have replaced since the last time.
    pub(super) fn read(&mut self, by: By) -> Result<Reading> {
        let opened = read_only::View::open(self.pins)?;
        let (tables, attachments) = (opened.tables(), opened.attachments()?);
        let all = Moment::now(tables)?;
        let before = self.all.take().filter(|before| all.continues(before));
        let now = before.as_ref().map_or_else(Rates::default, |before| all.since(before)).per_second;
        let refused = before.as_ref().map_or_else(Vec::new, |before| all.refused_since(before));
        let describe = Describe::with(tables)?;
        let (followed, found) = self.sources.read(tables, &describe, by)?;
        let rows = followed.iter().map(|followed| row(&describe, followed)).collect::<Result<Vec<_>>>()?;
        let control = tables.control()?;
        let unknown = gauges::unknown_rate(tables, &control)?;
        let refused_as_new = |(reason, _): &&(Reason, u64)| {
            matches!(reason, Reason::NotAdmitted | Reason::OverUnknown | Reason::SynCookie)
        };
        let is_in_shadow = control.features & FEATURE_SHADOW != 0;
        let worst: Vec<Worst<'_>> = rows.iter().map(Worst::of).collect();
        let facts = Facts {
            is_attached: attachments.iter().any(|attachment| !attachment.is_gone),
            are_gone: !attachments.is_empty() && attachments.iter().all(|attachment| attachment.is_gone),
            has_rules: self.has_rules(tables, control.generation)? || unknown.is_some(),
            is_in_shadow,
            has_limits_in_shadow: in_shadow::may_be(tables)?,
            now,
            packets: tables.counts()?.iter().map(|(_, count)| count.packets).sum(),
            sources: found.of_all(found.tracked),
            seen_once: found.of_all(found.seen_once),
            unknown,
            proves_tcp: control.features & FEATURE_PROVE_TCP != 0,
            refused_as_new: refused.iter().filter(refused_as_new).map(|(_, rate)| rate).sum(),
            over_unknown: refused
                .iter()
                .filter(|(reason, _)| *reason == Reason::OverUnknown)
                .map(|(_, rate)| rate)
                .sum(),
            deny: Worst::deny(&worst, tables)?,
            worst,
        };
        let sources: Vec<Row> = rows.iter().zip(&followed).map(|(row, followed)| of_source(row, followed)).collect();
        let is_all = found.part >= 1.0 && followed.len() >= found.tracked;
        let rows = BTreeMap::from([
            (View::Services, services(&sources, is_all)),
            (View::Reasons, reasons(&all, before.as_ref())),
            (View::Interfaces, self.interfaces(tables, &attachments)?),
            (View::Sources, sources),
        ]);
        self.all = Some(all);
        Ok(Reading {
            interfaces: interfaces(&attachments, is_in_shadow),
            now,
            sources: (facts.sources, found.part < 1.0),
            diagnosis: pasted::text(&diagnosis::of(&facts)).into_owned(),
            rows,
        })
    }

    /// Returns whether there is any rule or limit. Counting takes long with very many, so it is done once for each
    /// generation.
    fn has_rules(&mut self, tables: &Tables, generation: u32) -> Result<bool> {
        if let Some((_, has)) = self.rules.filter(|(known, _)| *known == generation) {
            return Ok(has);
        }
        let has =
            !DefaultLimit::read(tables)?.is_empty() || Rules::read(tables)?.any() || !listing::all(tables)?.is_empty();
        self.rules = Some((generation, has));
        Ok(has)
    }

    fn interfaces(&mut self, tables: &Tables, attachments: &[Attachment]) -> Result<Vec<Row>> {
        let indices = attachments.iter().filter_map(|attachment| attachment.index).collect();
        let shares = Shares::of(tables, &indices)?;
        let mut moments = BTreeMap::new();
        let mut rows = Vec::new();
        for attachment in attachments {
            let mode = attachment.mode.map_or("gone or in another namespace", Attached::name);
            let detail = if attachment.is_shadow() { format!("{mode}, in shadow") } else { mode.to_owned() };
            let mut row = Row { name: attachment.name.clone(), detail, ..Row::default() };
            let counts = shares.interfaces.iter().find(|(index, _)| Some(*index) == attachment.index);
            if let Some((index, Some(counts))) = counts {
                let now = Moment::of(*counts);
                let before = self.interfaces.get(index).filter(|before| now.continues(before));
                row.per_second = before.map_or([0; 2], |before| pair(&now.since(before).per_second));
                row.total = pair(&now.verdicts());
                moments.insert(*index, now);
            }
            rows.push(row);
        }
        self.interfaces = moments;
        Ok(rows)
    }
}

/// Returns passed and refused packets. Packets that pass in shadow are both.
const fn pair(verdicts: &Verdicts) -> [u64; 2] {
    [verdicts.passed.packets, verdicts.dropped.packets + verdicts.would_drop.packets]
}

fn row(describe: &Describe<'_>, followed: &Followed) -> Result<SourceRow> {
    describe.row(&followed.source, &followed.bucket, Some(followed.per_second.unwrap_or_default()))
}

fn of_source(row: &SourceRow, followed: &Followed) -> Row {
    let Followed { source, bucket, .. } = followed;
    let rates = row.per_second.unwrap_or_default();
    Row {
        name: row.source.clone(),
        kind: row.service.clone(),
        per_second: rates.both(),
        total: [bucket.passed(), bucket.over_limit()],
        detail: row.policy.text.clone(),
        are_estimates: rates.are_estimates,
        are_totals_estimates: [row.passed.estimated, row.dropped.estimated || row.would_drop.estimated],
        few: rates.few,
        source: Some(Prefix::of(source, source.prefix)),
    }
}

/// Returns the sums of the followed sources by service. They are estimates unless all sources are followed.
fn services(sources: &[Row], is_all: bool) -> Vec<Row> {
    let mut services = BTreeMap::<&str, (Row, usize)>::new();
    for source in sources {
        let (row, number) = services.entry(&source.kind).or_default();
        for (sum, rate) in row.per_second.iter_mut().zip(source.per_second) {
            *sum += rate;
        }
        for (sum, total) in row.total.iter_mut().zip(source.total) {
            *sum += total;
        }
        for (mark, is_estimate) in row.are_estimates.iter_mut().zip(source.are_estimates) {
            *mark |= is_estimate || !is_all;
        }
        for (mark, is_estimate) in row.are_totals_estimates.iter_mut().zip(source.are_totals_estimates) {
            *mark |= is_estimate || !is_all;
        }
        *number += 1;
    }
    let row = |(service, (row, number)): (&str, (Row, usize))| Row {
        name: service.to_owned(),
        detail: if is_all { format!("{number} sources") } else { format!("the {number} busiest sources") },
        ..row
    };
    services.into_iter().map(row).collect()
}

/// Returns the reasons that had packets.
fn reasons(now: &Moment, before: Option<&Moment>) -> Vec<Row> {
    let rates = before.map_or_else(Vec::new, |before| now.by_reason_since(before));
    let rate = |reason: Reason, is_shadow: bool| {
        rates.iter().find(|rate| (rate.0, rate.1) == (reason, is_shadow)).map_or(0, |rate| rate.2)
    };
    let row = |(reason, is_shadow, packets): (Reason, bool, u64)| {
        let side = usize::from(is_shadow || !reason.passes());
        let (mut per_second, mut total) = ([0; 2], [0; 2]);
        (per_second[side], total[side]) = (rate(reason, is_shadow), packets);
        let verdict = if is_shadow {
            "would drop"
        } else if reason.passes() {
            "passed"
        } else {
            "dropped"
        };
        Row { name: reason.name().to_owned(), kind: verdict.to_owned(), per_second, total, ..Row::default() }
    };
    now.by_reason().into_iter().filter(|(_, _, packets)| *packets != 0).map(row).collect()
}

/// Returns the interfaces in one line.
fn interfaces(attachments: &[Attachment], is_in_shadow: bool) -> String {
    let one = |attachment: &Attachment| {
        let shadow = is_in_shadow || attachment.is_shadow();
        format!("{}: {}", attachment.name, if shadow { "in shadow" } else { "enforced" })
    };
    let all: Vec<_> = attachments.iter().map(one).collect();
    if all.is_empty() { "not attached".to_owned() } else { all.join(", ") }
}
