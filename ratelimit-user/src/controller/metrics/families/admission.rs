//! Who gets a bucket, and how long it stays.

use super::{Family, Scene};
use crate::dataplane::{Error, readings::gauges};
use ratelimit_common::maps::control::FEATURE_FRONT;

pub(super) fn families(scene: &Scene<'_>) -> Result<Vec<Family>, Error> {
    let (control, cpus) = (&scene.control, gauges::cpus()?);
    let mut families = vec![
        Family::counter("ratelimit_buckets_created_total", "Buckets that were made.").of(scene.cpus.admitted),
        Family::counter(
            "ratelimit_bucket_inserts_failed_total",
            "Buckets that the map did not take, also where another CPU was first with the same.",
        )
        .of(scene.cpus.failed),
        Family::counter("ratelimit_bans_failed_total", "Bans that the map had no room for.").of(scene.cpus.bans_failed),
    ];
    // Without cells there is no budget.
    if control.features & FEATURE_FRONT != 0 {
        let budget = control.admission.per_second.saturating_mul(cpus as u64);
        families.push(
            Family::gauge("ratelimit_admission_buckets_per_second", "New buckets that all CPUs together may make.")
                .of(budget),
        );
        if let Some(stay) = gauges::idle_at_full_budget(control, scene.view.tables().capacity()?, cpus) {
            families.push(
                Family::gauge(
                    "ratelimit_bucket_idle_at_full_budget_seconds",
                    "How long a bucket stays that is not asked while that many are made: an estimate.",
                )
                .of(stay.as_secs_f64()),
            );
        }
    }
    Ok(families)
}
