//! Changes an instance in several steps: applies a configuration file, attaches to interfaces, and undoes the steps if
//! one fails. A single step belongs to `dataplane`.

pub(crate) mod again;
mod allows;
pub(crate) mod appear;
pub mod applied;
pub mod apply;
pub(crate) mod difference;
pub(crate) mod interfaces;
pub(crate) mod left;
pub(crate) mod lists;
pub(crate) mod omitted;
mod remote_lists;
pub(crate) mod undo;
