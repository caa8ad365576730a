//! What commands and metrics show of an instance. Nothing here changes a map.

pub mod busy;
pub mod cells;
pub mod clocks;
pub mod events;
pub mod gauges;
pub mod hour;
pub mod interface_counters;
pub mod peaks;
pub mod rates;
pub mod rule_hits;
pub mod sampling;
pub mod shares;
pub mod source_counts;
pub mod standing;
pub mod totals;
pub mod tracked;
pub mod worst;
