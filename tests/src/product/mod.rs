//! What is around the product: the schema of its output, traces of its system calls, and systemd, Redis and nginx.

pub(crate) mod authority;
pub(crate) mod encryption;
pub(crate) mod limit_row;
pub(crate) mod manager;
pub(crate) mod nginx;
pub(crate) mod redis;
pub mod schema;
pub(crate) mod sharing;
pub(crate) mod trace;
pub mod unpacked;
