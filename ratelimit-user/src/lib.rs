//! The controller of ratelimit. Each layer knows only those below it: [`cli`], then [`controller`] and [`doctor`], then [`config`], then [`dataplane`], then `ratelimit-common`.

pub mod cli;
pub mod config;
pub mod controller;
pub mod dataplane;
pub mod doctor;
mod limit;
pub mod prefix;
pub mod service;
mod settings;
mod ssh;
pub mod units;
