//! One reading of an instance, with the values that several families need.

use ratelimit_common::maps::{control::Control, cpu::Cpu};
use ratelimit_dataplane::{
    Error,
    instance::read_only::View,
    readings::{
        gauges,
        totals::{self, Rules, Tracked},
    },
};

/// One reading of an instance.
pub(super) struct Reading<'a> {
    pub(super) view: &'a View,
    pub(super) control: Control,
    pub(super) cpus: Cpu,
    pub(super) tracked: Tracked,
    pub(super) rules: Rules,
}

impl<'a> Reading<'a> {
    /// Reads the values.
    pub(super) fn of(view: &'a View) -> Result<Self, Error> {
        let tables = view.tables();
        Ok(Self {
            view,
            control: tables.control()?,
            cpus: gauges::of_cpus(tables)?,
            tracked: totals::tracked(tables)?,
            rules: totals::rules(tables)?,
        })
    }
}
