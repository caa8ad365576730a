//! Wraps system calls. Nothing here knows rules or instances.

pub mod ancestors;
pub mod bpf;
pub mod drivers;
pub mod ethtool;
pub mod features;
pub mod host;
pub mod interface;
pub mod joined_packets;
pub mod kernel_log;
pub mod largest_frame;
pub mod layers;
pub mod link_events;
pub mod link_type;
pub mod lock_holder;
pub(crate) mod lock_thread;
pub mod lost_answers;
pub mod mmap_array;
pub mod name_servers;
pub mod namespace;
pub mod netlink;
pub mod network_events;
pub mod rcu;
pub mod signals;
pub mod xdp_features;
