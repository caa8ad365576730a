//! Loads the program with its settings.

pub(crate) mod control_init;
pub mod loader;
pub(crate) mod requested;
pub(crate) mod settings;
