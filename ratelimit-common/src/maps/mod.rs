//! Names, sizes and layouts of the maps that no other module owns.

pub mod change;
pub mod constants;
pub mod control;
pub mod cpu;
pub mod event;
pub mod interface_counters;
pub mod levels;
pub mod names;
pub mod renamed;
