//! The library of the integration tests: the product's bytecode and its programs, models of its algorithms, attacks, and
//! the servers around it. The sandbox and its traffic are those of `ratelimit-sandbox`.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test harness fails by panicking")]

pub mod attacks;
mod bytecode;
pub mod differential;
pub mod fleet;
pub mod generate;
mod hosts;
pub mod models;
mod packets;
pub mod pages;
mod policies;
mod product;
pub mod reference;
#[path = "../kernel/src/scatter.rs"]
mod scatter;

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
};
pub use policies::per_second;
pub use product::{
    authority::{Authority, Signed},
    encryption::Encryption,
    limit_row::flat,
    manager::{NotifySocket, Systemd},
    nginx::Nginx,
    redis::Redis,
    schema::{self, Ratelimit},
    sharing::{Decided, Second, Sharing},
    trace::{Call, Fault, Traced, traced, traced_daemon, try_traced},
    unpacked,
};
pub use ratelimit_sandbox::{
    Daemon, EXTENSIONS, Flood, Folder, Frame, FrameReceiver, MAC, Namespace, Output, PATIENCE, PEER_IPV4, PEER_IPV6,
    PEER_LINK, Process, RawSocket, Running, Sandbox, Segment, Sink, Stamped, StampedSocket, Tun, VICTIM_IPV4,
    VICTIM_IPV6, VICTIM_LINK, WIREGUARD_KEYS, Wrap, compute_checksums, framed, has_two_cpus, join_no_packets,
    kernel_at_least, online_cpus, receive_by_timer, scaled, send_raw, set_queues, set_wireguard, stay_on_cpu, stdin,
    wait_until,
};
pub use reference::{disagreement, expected, reply};
