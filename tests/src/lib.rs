//! The library of the integration tests and the demo: a sandbox of anonymous namespaces, traffic, and the product's
//! programs in it.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test harness fails by panicking")]

pub mod attacks;
mod bytecode;
pub mod differential;
pub mod fleet;
pub mod generate;
mod hosts;
pub mod models;
mod object;
mod packets;
pub mod pages;
mod policies;
mod product;
pub mod reference;
mod sandbox;
#[path = "../kernel/src/scatter.rs"]
mod scatter;
mod traffic;

pub use bytecode::{
    Bytecode,
    clock::Clock,
    debts::debts,
    empty::Empty,
    layout_12::turn_into_layout_12,
    old_maps::OldMaps,
    runner::{Runner, Verdict, delete_rule, set_rule},
    walker::{Order, Sources, Walker},
};
pub use differential::tally;
pub use hosts::{Arrivals, Cluster, Hosts, Sentinels, Way};
pub use models::tokens;
pub use packets::{
    captures::{Capture, captures},
    encapsulations::{Encapsulated, encapsulations},
    frame::Frame,
    segment::Segment,
    wrap::{EXTENSIONS, Wrap, framed},
};
pub use policies::per_second;
pub use product::{
    authority::{Authority, Signed},
    daemon::{Daemon, Folder},
    encryption::Encryption,
    limit_row::flat,
    manager::{NotifySocket, Systemd},
    nginx::Nginx,
    ratelimit::{Output, Ratelimit, stdin},
    redis::Redis,
    schema,
    sharing::{Decided, Second, Sharing},
    trace::{Call, Fault, Traced, traced, traced_daemon, try_traced},
    unpacked,
};
pub use reference::{disagreement, expected, reply};
pub use sandbox::{
    Sandbox,
    addresses::{MAC, PEER_IPV4, PEER_IPV6, PEER_LINK, VICTIM_IPV4, VICTIM_IPV6, VICTIM_LINK},
    kernel::{has_two_cpus, kernel_at_least, online_cpus},
    link::{compute_checksums, join_no_packets},
    namespace::Namespace,
    process::Process,
    queues::{receive_by_timer, set_queues},
};
pub use traffic::{
    flood::{Flood, Running},
    frame_receiver::FrameReceiver,
    raw::{RawSocket, send_raw},
    sink::Sink,
    stamped::{Stamped, StampedSocket},
    tun::Tun,
    wireguard::{WIREGUARD_KEYS, set_wireguard},
};
