//! The number of tracked sources.

use ratelimit_dataplane::{Error, readings::gauges};

use super::{page::Family, reading::Reading};

pub(super) fn families(reading: &Reading<'_>) -> Result<Vec<Family>, Error> {
    let tracked = &reading.tracked;
    let max = u64::from(gauges::max_sources(reading.view.tables())?);
    Ok(vec![
        Family::gauge(
            "ratelimit_sources_tracked",
            "Sources with a bucket. A source counts once for each service with rules.",
        )
        .of(tracked.sources),
        Family::gauge("ratelimit_sources_exceeding", "Tracked sources with dropped packets. Shadow mode counts too.")
            .of(tracked.exceeding),
        Family::gauge(
            "ratelimit_sources_max",
            "Largest number of buckets. When all are in use, a new one replaces the one that was unused for longest.",
        )
        .of(max),
    ])
}
