//! `on` or `off`.

use clap::ValueEnum;

/// A value of an option that is on or off, and of a key that is true or false.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    On,
    Off,
}
