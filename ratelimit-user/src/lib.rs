//! The user side of ratelimit. Each room uses only rooms below it: [`cli`], [`doctor`], `serve`, [`controller`], [`config`],
//! [`usage`], [`check`], `ssh`, `limit` and `settings`, [`dataplane`], [`fleet`], [`text`], and the crate `ratelimit-common`.

pub mod check;
pub mod cli;
pub mod config;
pub mod controller;
pub mod dataplane;
pub mod doctor;
pub mod fleet;
mod limit;
mod serve;
mod settings;
mod ssh;
pub mod text;
pub mod usage;
