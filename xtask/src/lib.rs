//! Checks of the project itself, for the chores and for tests.

pub mod documents;
pub mod finding;
pub mod structure;
