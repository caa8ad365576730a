//! Replies to packets over a limit, and SYN-ACKs. The choice of packets that get a reply belongs in `packet`.
//!
//! A first SYN gets a reset (RFC 9293), other TCP segments get no reply. Everything else gets an ICMP error that quotes
//! the IP header and eight bytes. Broadcasts, multicasts, errors, and packets with options or extension headers get no
//! reply. All CPUs and both kinds share one budget.
//!
//! One function for each family builds the reply beside `decide`, and in integers instead of byte arrays, which LLVM
//! would keep on the stack.

pub mod answer;
pub(crate) mod checksum;
mod ipv4;
mod ipv6;
mod link;
mod rate;
pub mod syn_ack;
mod tcp;
