//! Attaches the program to interfaces, and takes that back.

pub mod attachment;
pub mod foreign_program;
pub mod undo;
