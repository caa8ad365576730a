//! `ratelimit serve`: answers whether requests may go on, by HTTP and gRPC. It needs no privileges and no BPF.
//!
//! All decisions are those of [`ratelimit_limiter`]. No file here decides anything.

mod access;
mod alike;
mod certificate;
mod console;
mod counts;
mod fleet;
mod grpc;
mod http;
mod in_fleet;
mod lent;
mod question;
mod recent;
mod reload;
mod rules;
mod run;
mod service;
mod sockets;
mod stops;
mod usage;

pub use self::{certificate::check as check_certificate, reload::check, run::run};
