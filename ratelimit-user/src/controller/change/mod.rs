//! Puts a file or a command's request in force, and takes it back.

pub mod apply;
pub(crate) mod difference;
pub(crate) mod interfaces;
pub(crate) mod undo;
