//! `ratelimit serve`: answers whether requests may go on, by HTTP. It needs no privileges and no BPF.
//!
//! All decisions are those of [`crate::check`]. No file here decides anything.

mod answer;
mod clock;
mod connections;
mod counts;
mod http;
mod listener;
mod run;
mod service;

pub(crate) use self::run::run;
