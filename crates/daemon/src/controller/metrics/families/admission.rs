//! New buckets, and how long unused ones stay.

use ratelimit_common::maps::control::FEATURE_FRONT;
use ratelimit_dataplane::{Error, readings::gauges};

use super::{page::Family, reading::Reading};

pub(super) fn families(reading: &Reading<'_>) -> Result<Vec<Family>, Error> {
    let (control, cpus) = (&reading.control, gauges::cpus()?);
    let mut families = vec![
        Family::counter("ratelimit_buckets_created_total", "Buckets that were created.").of(reading.cpus.admitted),
        Family::counter(
            "ratelimit_bucket_inserts_failed_total",
            "Buckets that could not be inserted into the map, including those that another CPU inserted first.",
        )
        .of(reading.cpus.failed),
        Family::counter("ratelimit_bans_failed_total", "Bans that did not fit into the full map.")
            .of(reading.cpus.bans_failed),
    ];
    // Without cells there is no budget.
    if control.features & FEATURE_FRONT != 0 {
        let budget = control.admission.per_second.saturating_mul(cpus as u64);
        families.push(
            Family::gauge(
                "ratelimit_admission_buckets_per_second",
                "Budget for new buckets per second, for all CPUs in total.",
            )
            .of(budget),
        );
        if let Some(stay) = gauges::idle_at_full_budget(control, gauges::max_sources(reading.view.tables())?, cpus) {
            families.push(
                Family::gauge(
                    "ratelimit_bucket_idle_at_full_budget_seconds",
                    "Estimated time that an unused bucket stays if the budget for new buckets is always spent.",
                )
                .of(stay.as_secs_f64()),
            );
        }
    }
    Ok(families)
}
