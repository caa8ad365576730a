//! `ratelimit serve`: answers whether requests may go on, by HTTP. It needs no privileges and no BPF.
//!
//! All decisions are those of [`crate::check`]. No file here decides anything.

mod clock;
mod counts;
mod http;
mod question;
mod run;
mod service;
mod sockets;
mod usage;

pub(crate) use self::run::run;
