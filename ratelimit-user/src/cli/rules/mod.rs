//! Commands about rules: limits, allowed and denied sources, and costs. Each works on the
//! sources of its arguments, or on a list on standard input.

pub(crate) mod access;
pub(crate) mod change;
pub(crate) mod cost;
mod delete;
mod delete_all;
mod delete_many;
mod feedback;
pub(crate) mod hits;
pub(crate) mod limit;
mod limit_row;
mod limit_set;
pub(crate) mod lines;
mod set_many;
pub(super) mod sources_argument;
