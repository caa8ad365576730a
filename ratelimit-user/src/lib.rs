//! The user side of ratelimit. Each room uses only rooms below it: [`cli`], [`doctor`], `replay`, `serve`, [`layer`], [`caller`],
//! [`controller`], [`config`], `edits`, `fetch`, `wire`, `crowdsec`, `stops`, [`usage`], `sharing`, [`check`], `ssh`, `limit` and
//! `settings`, [`dataplane`], [`fleet`], [`text`], and the crate `ratelimit-common`.

pub mod caller;
pub mod check;
pub mod cli;
pub mod config;
pub mod controller;
mod crowdsec;
pub mod dataplane;
pub mod doctor;
mod edits;
mod fetch;
pub mod fleet;
mod jitter;
pub mod layer;
mod limit;
mod replay;
mod serve;
mod settings;
mod sharing;
mod ssh;
mod stops;
mod stream;
pub mod text;
mod unix_group;
pub mod usage;
mod view;
mod wire;
