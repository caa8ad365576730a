//! `ratelimit serve`: answers by HTTP and gRPC whether requests may go on, keeps rules that callers change and the usage of
//! clients, and shows pages to people. The limiter decides. It must not contain aya, since packets are the daemon's; the
//! command `ratelimit` uses it.

pub mod config;
pub mod serve;
pub mod sharing;
pub mod usage;
