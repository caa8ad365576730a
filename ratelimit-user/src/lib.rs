//! The user side of ratelimit. Each room uses only rooms below it: [`cli`], [`doctor`], [`controller`], [`config`],
//! `ssh`, `limit` and `settings`, [`dataplane`], [`text`], and the crate `ratelimit-common`.

pub mod cli;
pub mod config;
pub mod controller;
pub mod dataplane;
pub mod doctor;
mod limit;
mod settings;
mod ssh;
pub mod text;
