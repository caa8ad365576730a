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
    readings::{cells, gauges},
    tables::open::Tables,
};

use super::finding::{Check, Finding};

/// One crowded cell in this number is a warning.
const FEW: usize = 10;
/// From so many buckets per cell on, filters of buckets save few look-ups.
const CROWD: usize = 8;

pub(super) fn examine(tables: &Tables, control: &Control) -> Result<Vec<Finding>, Error> {
    if control.features & FEATURE_FRONT == 0 {
        return Ok(Vec::new());
    }
    let crowded = finding(cells::number(tables)?, cells::crowded(tables)?, gauges::max_sources(tables)? as usize);
    let learned = gauges::learned_rate(tables, control)?;
    Ok(vec![crowded, unknown(gauges::unknown_rate(tables, control)?, learned.as_ref())])
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

/// `crowded` is the number of crowded cells, if there is a default limit.
fn finding(cells: usize, crowded: Option<usize>, max_sources: usize) -> Finding {
    let more = (4 * cells).min(CELLS_MAX as usize);
    let fixed = |finding: Finding| {
        if more > cells { finding.fixed_by(format!("ratelimit set --cells {more}")) } else { finding }
    };
    let what = match crowded {
        Some(crowded) => format!("{crowded} of {cells} are shared by several sources over the default limit"),
        None => format!("{cells}, and no default limit"),
    };
    if crowded.is_some_and(|crowded| crowded * FEW >= cells) {
        let why = "A source without a bucket loses packets in such a cell. An IPv6 source there is refused as a neighbour with odds of 2 to the power of -46.";
        return fixed(Finding::warning(Check::Cells, &what, why));
    }
    if max_sources >= CROWD * cells {
        let what = format!("{cells} for up to {max_sources} sources");
        let why = "If that many sources have a bucket, cells tell of few others that they have none. A flood then costs more look-ups.";
        return fixed(Finding::note(Check::Cells, &what, why));
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
        assert_eq!(finding(1_024, Some(102), 1_024).severity, Severity::Ok);
        let crowded = finding(1_024, Some(103), 1_024);
        assert_eq!((crowded.severity, crowded.fix.as_deref()), (Severity::Warning, Some("ratelimit set --cells 4096")));
        assert_eq!(finding(1_024, Some(0), 8_191).severity, Severity::Ok);
        assert_eq!(finding(1_024, None, 8_192).severity, Severity::Note);
        assert_eq!(finding(CELLS_MAX as usize, Some(CELLS_MAX as usize), 1).fix, None);
    }
}
