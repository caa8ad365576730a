//! Commands about the configuration file and the daemon that applies it.

pub(crate) mod check;
pub(crate) mod reload;
pub(crate) mod run;
pub(crate) mod save;
#[cfg(feature = "server")]
pub(crate) mod serve;
#[cfg(feature = "server")]
mod serve_tables;
#[cfg(not(feature = "server"))]
#[path = "absent_serve_tables.rs"]
mod serve_tables;
mod warnings;

pub(crate) use self::serve_tables::REQUEST_TABLES;
