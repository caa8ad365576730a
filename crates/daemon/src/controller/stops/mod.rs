//! Where applications ask to stop clients at the network card. The daemon proves each request by what the kernel knows,
//! and leaves out addresses that many clients share or that this host needs.
//!
//! A limit is a rule of the instance with an end and an origin of its own. In shadow, the daemon only logs and counts
//! what it would limit.

mod changes;
mod counts;
mod desk;
mod in_force;
mod journal;
mod judge;
mod kernel;
mod ledger;
mod server;
mod service;
mod spared;
mod writer;

pub use self::{
    counts::{Counts, Shown},
    desk::Desk,
    service::Service,
};
