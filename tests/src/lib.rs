//! The library of the integration tests and the demo: a sandbox of anonymous namespaces, traffic, and the product's
//! programs in it.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test harness fails by panicking")]

mod bytecode;
pub mod differential;
pub mod generate;
pub mod models;
mod packets;
mod product;
pub mod reference;
mod sandbox;
#[path = "../kernel/src/scatter.rs"]
mod scatter;
mod traffic;

use ratelimit_common::limits::{
    limit::{Limit, Rate, SECOND},
    policy::Policy,
};

pub use bytecode::{
    Bytecode,
    clock::Clock,
    empty::Empty,
    old_maps::OldMaps,
    runner::{Runner, Verdict, delete_rule, set_rule},
    walker::{Order, Sources, Walker},
};
pub use differential::tally;
pub use models::tokens;
pub use packets::{
    captures::{Capture, captures},
    encapsulations::{Encapsulated, encapsulations},
    frame::{Frame, MAC},
    wrap::{EXTENSIONS, Wrap, framed},
};
pub use product::{
    daemon::{Daemon, Folder},
    manager::{NotifySocket, Systemd},
    ratelimit::{Output, Ratelimit, stdin},
};
pub use reference::{disagreement, reply};
pub use sandbox::{
    PEER_IPV4, PEER_IPV6, PEER_LINK, Sandbox, VICTIM_IPV4, VICTIM_IPV6, VICTIM_LINK, kernel::kernel_at_least,
    namespace::Namespace, process::Process, queues::set_queues,
};
pub use traffic::{
    flood::{Flood, Running},
    frame_receiver::FrameReceiver,
    raw::send_raw,
    sink::Sink,
};

/// Returns a limit of `amount` packets per second with this burst.
///
/// # Panics
///
/// If the limit is invalid.
#[must_use]
pub fn per_second(amount: u64, burst: u64) -> Policy {
    let rate = Rate { amount, period: SECOND };
    Limit { packets: Some(rate), burst: Some(burst), ..Limit::default() }.policy().expect("the limit is invalid")
}

/// The kernel side of the tests.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/ratelimit-tests-ebpf"));
