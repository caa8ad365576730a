//! A victim and its peer in namespaces of their own, traffic between them, and the product's binary.
//!
//! It knows the product only as a program, and links nothing of it: no rules, no schema of its output, no servers around
//! it. The tests, the demo and the benchmark build on it.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test harness fails by panicking")]

mod object;
pub mod packets;
mod patience;
mod product;
mod sandbox;
mod traffic;

pub use object::OBJECT;
pub use packets::{
    frame::Frame,
    segment::Segment,
    wrap::{EXTENSIONS, Wrap, framed},
};
pub use patience::{PATIENCE, scaled, wait_until};
pub use product::{
    daemon::{Daemon, Folder},
    ratelimit::{Check, Output, Program, Ratelimit, Unchecked, stdin},
};
pub use sandbox::{
    Sandbox,
    addresses::{MAC, PEER_IPV4, PEER_IPV6, PEER_LINK, VICTIM_IPV4, VICTIM_IPV6, VICTIM_LINK},
    kernel::{has_two_cpus, kernel_at_least, online_cpus, stay_on_cpu},
    link::{compute_checksums, connect_without_addresses, ip, join_no_packets},
    namespace::Namespace,
    process::{Process, output},
    queues::{receive_by_timer, set_queues},
};
pub use traffic::{
    flood::{Flood, Running},
    frame_receiver::FrameReceiver,
    raw::{RawSocket, send_raw},
    sink::{Attached, Sink},
    stamped::{Stamped, StampedSocket},
    tun::Tun,
    wireguard::{WIREGUARD_KEYS, set_wireguard},
};
