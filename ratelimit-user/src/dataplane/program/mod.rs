//! Loads the program with its settings. Maps are opened in `tables`.

mod constants;
pub(crate) mod control_init;
pub mod loader;
pub mod programs;
pub(crate) mod proofs;
pub(crate) mod requested;
pub(crate) mod settings;
pub mod values;
