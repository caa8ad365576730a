//! Checks whether there are enough cells, and whether unknown sources are limited.

use ratelimit_common::{
    cells::learned_rate::{DAY, LearnedRate},
    maps::{
        control::{Control, FEATURE_FRONT},
        names::CELLS_MAX,
    },
};
use ratelimit_dataplane::{
    Error,
    program::values::per_second,
    readings::{cells, gauges, tracked},
    rules::resolve::{self, Unruled},
    sys::host,
    tables::open::Tables,
};

use super::finding::{Check, Finding};

/// One crowded cell in this number is a warning.
const FEW: usize = 10;
/// Nanoseconds within which a source that was seen counts. A bucket stays until its place is needed.
const LATELY: u64 = 60_000_000_000;
/// From so many sources with a bucket per cell on, filters of buckets save few look-ups.
const CROWD: usize = 8;
/// From so many sources with a bucket per cell on, a cell is short for its sources. One source alone seldom needs one.
const SHARED: usize = 4;

/// What there is of cells, and what is to decide about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cells {
    number: usize,
    /// The number of crowded ones, if there is a default limit.
    crowded: Option<usize>,
    /// The number of sources under the default that have a bucket, and were seen within [`LATELY`].
    sources: usize,
}

impl Cells {
    /// Reads them. None if there are none.
    pub(super) fn read(tables: &Tables, control: &Control) -> Result<Option<Self>, Error> {
        if control.features & FEATURE_FRONT == 0 {
            return Ok(None);
        }
        let (unruled, now, mut sources) = (Unruled::read(tables)?, host::now(), 0);
        tracked::each(tables, |source, bucket| {
            let is_seen = bucket.since_last(now).is_some_and(|silent| silent < LATELY);
            sources += usize::from(is_seen && resolve::is_source(&source, &bucket) && unruled.has(&source));
        })?;
        let (number, crowded) = (cells::number(tables)?, cells::crowded(tables)?);
        Ok(Some(Self { number, crowded, sources }))
    }

    /// Returns whether sources need a bucket because others have filled their cell.
    fn are_short(&self) -> bool {
        self.crowded.is_some_and(|crowded| crowded * FEW >= self.number || self.sources >= SHARED * self.number)
    }

    /// Returns the command that gives more of them, if they are short.
    pub(super) fn fix_if_short(&self) -> Option<String> {
        self.fix().filter(|_| self.are_short())
    }

    fn fix(&self) -> Option<String> {
        let more = (4 * self.number).max(self.sources.next_power_of_two()).min(CELLS_MAX as usize);
        (more > self.number).then(|| format!("ratelimit set --cells {more}"))
    }
}

pub(super) fn examine(tables: &Tables, control: &Control, cells: &Cells) -> Result<Vec<Finding>, Error> {
    let learned = gauges::learned_rate(tables, control)?;
    Ok(vec![finding(cells), unknown(gauges::unknown_rate(tables, control)?, learned.as_ref())])
}

/// Returns the finding about the limit of unknown sources.
fn unknown(rate: Option<u64>, learned: Option<&LearnedRate>) -> Finding {
    let Some(rate) = rate.map(per_second) else {
        let why =
            "In a flood from forged addresses, every packet has a new source, and no limit for each source stops it.";
        return Finding::note(Check::UnknownSources, "not limited", why).fixed_by("ratelimit set --unknown auto");
    };
    let learned = match learned {
        Some(learned) if learned.is_learning() => {
            format!(", which is being learned: {} of {DAY} calm minutes", learned.calm)
        }
        Some(learned) if learned.is_raised() => ", so that sources become known again".to_owned(),
        Some(_) => ", a learned rate".to_owned(),
        None => String::new(),
    };
    Finding::ok(Check::UnknownSources, &format!("limited to {rate} in total{learned}"))
}

fn finding(cells: &Cells) -> Finding {
    let Cells { number, crowded, sources } = *cells;
    let fixed = |finding: Finding| match cells.fix() {
        Some(fix) => finding.fixed_by(fix),
        None => finding,
    };
    let what = match crowded {
        Some(crowded) => format!("{crowded} of {number} are shared by several sources over the default limit"),
        None => format!("{number}, and no default limit"),
    };
    if crowded.is_some_and(|crowded| crowded * FEW >= number) {
        let why = "A source without a bucket loses packets in such a cell. An IPv6 source there is refused as a neighbour with odds of 2 to the power of -46.";
        return fixed(Finding::warning(Check::Cells, &what, why));
    }
    let what_of_sources = format!("{number} for {sources} sources with a bucket");
    if cells.are_short() {
        let why = "Many sources share each cell, and need a bucket once others have filled it. Those that the budget for new buckets does not admit lose packets within their limit.";
        return fixed(Finding::warning(Check::Cells, &what_of_sources, why));
    }
    if sources >= CROWD * number {
        let why = "So many sources have a bucket that cells tell of few others that they have none. A flood then costs more look-ups.";
        return fixed(Finding::note(Check::Cells, &what_of_sources, why));
    }
    Finding::ok(Check::Cells, &what)
}

#[cfg(test)]
mod tests {
    use super::{super::finding::Severity, *};

    #[test]
    fn a_missing_limit_of_unknown_sources_is_a_note() {
        let missing = unknown(None, None);
        assert_eq!((missing.severity, missing.fix.as_deref()), (Severity::Note, Some("ratelimit set --unknown auto")));
        let learned = |calm, settling| {
            let learned = LearnedRate { per_minute: 60_000, calm, settling, ..LearnedRate::default() };
            unknown(Some(learned.in_force() / 60), Some(&learned)).what
        };
        assert_eq!(learned(DAY, 0), "limited to 1000/s in total, a learned rate");
        assert_eq!(learned(DAY, 1), "limited to 100k/s in total, so that sources become known again");
        assert_eq!(learned(7, 10), "limited to 100k/s in total, which is being learned: 7 of 1440 calm minutes");
        assert_eq!(unknown(Some(10_000), None).what, "limited to 10k/s in total");
    }

    #[test]
    fn many_crowded_cells_are_a_warning_and_many_sources_a_note() {
        let of = |number, crowded, sources| finding(&Cells { number, crowded, sources });
        assert_eq!(of(1_024, Some(102), 0).severity, Severity::Ok);
        let crowded = of(1_024, Some(103), 0);
        assert_eq!((crowded.severity, crowded.fix.as_deref()), (Severity::Warning, Some("ratelimit set --cells 4096")));
        // Without a default limit, no source needs a bucket because of others.
        assert_eq!([8_191, 8_192].map(|sources| of(1_024, None, sources).severity), [Severity::Ok, Severity::Note]);
        let most = CELLS_MAX as usize;
        assert_eq!(of(most, Some(most), 0).fix, None);
        assert_eq!(
            [4_095, 4_096].map(|sources| of(1_024, Some(0), sources).severity),
            [Severity::Ok, Severity::Warning]
        );
        let short = of(16, Some(0), 3_000);
        assert_eq!((short.severity, short.fix.as_deref()), (Severity::Warning, Some("ratelimit set --cells 4096")));
    }
}
