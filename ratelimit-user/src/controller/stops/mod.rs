//! Where applications ask to stop clients at the network card. The daemon proves each request by what the kernel knows,
//! and leaves out addresses that many clients share or that this host needs.
//!
//! So far it only logs and counts what it would limit.

mod counts;
mod judge;
mod server;
mod service;
mod socket;
mod spared;

pub(crate) use self::{
    counts::{Counts, Shown},
    service::Service,
};
