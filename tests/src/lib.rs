//! What the integration tests and the demo share: a sandbox of anonymous namespaces, traffic for it, and the product's binary in it.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test harness fails by panicking")]

mod bytecode;
mod empty;
mod flood;
mod frame;
mod interrupt;
mod kernel;
mod link;
mod namespace;
mod process;
mod queues;
mod ratelimit;
mod raw;
mod sandbox;
mod sink;
pub mod tokens;
mod walk;

pub use bytecode::{Bytecode, Clock, Verdict};
pub use empty::Empty;
pub use flood::{Flood, Running};
pub use frame::{Frame, MAC};
pub use kernel::kernel_at_least;
pub use namespace::Namespace;
pub use process::Process;
pub use queues::set_queues;
pub use ratelimit::{Output, Ratelimit};
pub use raw::send_raw;
pub use sandbox::{PEER_IPV4, PEER_IPV6, PEER_LINK, Sandbox, VICTIM_IPV4, VICTIM_IPV6, VICTIM_LINK};
pub use sink::Sink;

/// The kernel side of the tests: `send`, `pass` and `drop`.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/ratelimit-tests-ebpf"));
