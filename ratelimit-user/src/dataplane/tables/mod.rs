//! The opened maps of an instance, their layouts and their memory.

pub(crate) mod layout_check;
pub mod memory;
pub mod open;
