//! Attaches the program to interfaces, and undoes that. Rules and maps do not belong here.

pub mod attachment;
pub mod carried;
pub mod chosen;
pub mod covered;
pub mod foreign_program;
mod how;
pub mod link;
mod loaded;
pub mod occupant;
pub mod program_above;
pub mod refusal;
pub mod twice;
pub mod undo;
pub mod unlinked;
