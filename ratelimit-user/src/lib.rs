//! The controller of ratelimit. Each layer knows only those below it: [`cli`], then [`dataplane`], then `ratelimit-common`.

pub mod cli;
pub mod dataplane;
mod limit;
pub mod prefix;
pub mod service;
pub mod units;
