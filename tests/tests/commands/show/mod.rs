//! Commands that show sources, and what decides about them.

mod sources;
mod suggest;
mod top;
mod why;
