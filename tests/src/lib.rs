//! What the integration tests and the demo share: a sandbox of anonymous namespaces, traffic for it, and the product's binary in it.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test harness fails by panicking")]

pub mod answer;
mod bytecode;
mod captures;
mod daemon;
pub mod differential;
pub mod disagreement;
mod ear;
mod empty;
mod extensions;
mod flood;
mod frame;
pub mod generate;
mod interrupt;
mod kernel;
mod link;
mod manager;
mod mapped;
pub mod models;
mod namespace;
mod old_maps;
mod process;
mod queues;
mod ratelimit;
mod raw;
pub mod reference;
mod runner;
mod sandbox;
#[path = "../kernel/src/scatter.rs"]
mod scatter;
mod sink;
pub mod tally;
pub mod tokens;
mod walk;
mod walker;
mod wrap;
mod wrappings;

use ratelimit_common::limits::{
    limit::{Limit, Rate, SECOND},
    policy::Policy,
};

pub use bytecode::{Bytecode, Clock};
pub use captures::{Capture, captures};
pub use daemon::{Daemon, Folder};
pub use ear::Ear;
pub use empty::Empty;
pub use flood::{Flood, Running};
pub use frame::{Frame, MAC};
pub use kernel::kernel_at_least;
pub use manager::{NotifySocket, Systemd};
pub use namespace::Namespace;
pub use old_maps::OldMaps;
pub use process::Process;
pub use queues::set_queues;
pub use ratelimit::{Output, Ratelimit, stdin};
pub use raw::send_raw;
pub use runner::{Runner, Verdict, delete_rule, set_rule};
pub use sandbox::{PEER_IPV4, PEER_IPV6, PEER_LINK, Sandbox, VICTIM_IPV4, VICTIM_IPV6, VICTIM_LINK};
pub use sink::Sink;
pub use walker::{Order, Sources, Walker};
pub use wrap::{EXTENSIONS, Wrap, framed};
pub use wrappings::{Wrapped, wrappings};

/// A limit of `amount` packets per second, of which `burst` may come at once.
///
/// # Panics
///
/// If there can be no such limit.
#[must_use]
pub fn per_second(amount: u64, burst: u64) -> Policy {
    let rate = Rate { amount, period: SECOND };
    Limit { packets: Some(rate), burst: Some(burst), ..Limit::default() }.policy().expect("no such limit")
}

/// The kernel side of the tests.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/ratelimit-tests-ebpf"));
