//! Commands that show sources, and what decides about them.

mod estimates;
mod replay;
mod rule_hits;
mod sources;
mod suggest;
mod top;
mod why;
