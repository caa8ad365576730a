//! The creation of buckets in the output.

use anyhow::Result;
use ratelimit_common::maps::{
    control::{Control, FEATURE_FRONT},
    cpu::Cpu,
};
use ratelimit_dataplane::{readings::gauges, tables::open::Tables};
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(super) struct Admission {
    /// The budget for new buckets. None if it is not limited.
    pub(super) per_second_and_cpu: Option<u64>,
    pub(super) cpus: usize,
    pub(super) created: u64,
    /// Packets that were dropped because no bucket could be created.
    pub(super) refused: u64,
    /// Failed inserts. This includes buckets that another CPU created first.
    pub(super) failed: u64,
    /// Bans that the map had no room for.
    pub(super) bans_failed: u64,
    /// Estimated time that an unused bucket stays, if the budget is always spent.
    pub(super) idle_at_full_budget_seconds: Option<f64>,
    /// Estimated time that an unused bucket stays, at the average rate so far.
    pub(super) idle_so_far_seconds: Option<f64>,
}

impl Admission {
    pub(super) fn read(tables: &Tables, control: &Control, counted: &Cpu, refused: u64) -> Result<Self> {
        let (max_sources, cpus) = (gauges::max_sources(tables)?, gauges::cpus()?);
        let has_budget = control.features & FEATURE_FRONT != 0;
        let at_full_budget = has_budget.then(|| gauges::idle_at_full_budget(control, max_sources, cpus)).flatten();
        let so_far = gauges::idle_so_far(control, max_sources, counted.admitted);
        Ok(Self {
            per_second_and_cpu: has_budget.then_some(control.admission.per_second),
            cpus,
            created: counted.admitted,
            refused,
            failed: counted.failed,
            bans_failed: counted.bans_failed,
            idle_at_full_budget_seconds: at_full_budget.map(|stay| stay.as_secs_f64()),
            idle_so_far_seconds: so_far.map(|stay| stay.as_secs_f64()),
        })
    }
}
