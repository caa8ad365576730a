//! Loads the program with its settings. Maps are opened in `tables`.

mod constants;
pub mod control_init;
pub mod loader;
pub mod programs;
pub mod proofs;
pub mod requested;
pub mod settings;
pub mod sizes;
pub mod values;
