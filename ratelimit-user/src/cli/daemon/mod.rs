//! Commands about the configuration file and the daemon that applies it.

pub(crate) mod check;
pub(crate) mod reload;
pub(crate) mod run;
pub(crate) mod save;
pub(crate) mod serve;
mod warnings;
