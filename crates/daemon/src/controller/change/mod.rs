//! Changes an instance in several steps: applies a configuration file, attaches to interfaces, and undoes the steps if
//! one fails. A single step belongs to `dataplane`.

pub mod again;
mod allows;
pub mod appear;
pub mod applied;
pub mod apply;
pub mod difference;
pub mod interfaces;
pub mod left;
mod left_out;
pub mod lists;
pub mod omitted;
pub mod stacked;
pub mod undo;
