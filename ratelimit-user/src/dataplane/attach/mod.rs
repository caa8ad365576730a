//! Attaches the program to interfaces, and undoes that. Rules and maps do not belong here.

pub mod attachment;
pub(crate) mod carried;
pub(crate) mod foreign_program;
mod how;
pub(crate) mod link;
mod loaded;
pub(crate) mod occupant;
pub(crate) mod refusal;
pub mod undo;
pub(crate) mod unlinked;
