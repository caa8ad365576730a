//! Checks whether there are enough cells.

use ratelimit_common::maps::control::{Control, FEATURE_FRONT};

use super::finding::{Check, Finding};
use crate::dataplane::{
    Error,
    readings::{cells, gauges},
    tables::open::Tables,
};

/// One crowded cell in this number is a warning.
const FEW: usize = 10;
/// From so many buckets per cell on, filters of buckets save few look-ups.
const CROWD: usize = 8;

pub(super) fn examine(tables: &Tables, control: &Control) -> Result<Option<Finding>, Error> {
    if control.features & FEATURE_FRONT == 0 {
        return Ok(None);
    }
    let (number, crowded) = (cells::number(tables)?, cells::crowded(tables)?.unwrap_or(0));
    Ok(Some(finding(number, crowded, gauges::max_sources(tables)? as usize)))
}

fn finding(cells: usize, crowded: usize, max_sources: usize) -> Finding {
    let fix = || format!("ratelimit set --cells {}", 4 * cells);
    if crowded * FEW >= cells {
        let what = format!("{crowded} of {cells} are shared by several sources over the default limit");
        let why = "A source without a bucket loses packets in such a cell. An IPv6 source there is refused as its neighbour with odds of 2 to the power of -46.";
        return Finding::warning(Check::Cells, &what, why).fixed_by(fix());
    }
    if max_sources >= CROWD * cells {
        let what = format!("{cells} for up to {max_sources} sources");
        let why = "If that many sources have a bucket, cells tell of few others that they have none. A flood then costs more look-ups.";
        return Finding::note(Check::Cells, &what, why).fixed_by(fix());
    }
    Finding::ok(Check::Cells, &format!("{crowded} of {cells} are shared by several sources over the default limit"))
}

#[cfg(test)]
mod tests {
    use super::{super::finding::Severity, *};

    #[test]
    fn many_crowded_cells_are_a_warning_and_many_sources_a_note() {
        assert_eq!(finding(1_024, 102, 1_024).severity, Severity::Ok);
        let crowded = finding(1_024, 103, 1_024);
        assert_eq!((crowded.severity, crowded.fix.as_deref()), (Severity::Warning, Some("ratelimit set --cells 4096")));
        assert_eq!(finding(1_024, 0, 8_191).severity, Severity::Ok);
        assert_eq!(finding(1_024, 0, 8_192).severity, Severity::Note);
    }
}
