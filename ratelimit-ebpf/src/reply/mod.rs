//! Replies to packets over a limit, and SYN-ACKs. The choice of packets that get a reply belongs in `packet`.
//!
//! TCP gets a reset (RFC 9293). Everything else gets an ICMP error that quotes the IP header and eight bytes.
//! Broadcasts, multicasts, errors, resets, and packets with options or extension headers get no reply. All CPUs share
//! one budget.
//!
//! One function for each family builds the reply beside `decide`, and in integers instead of byte arrays, which LLVM
//! would keep on the stack.

pub mod answer;
mod budget;
pub(crate) mod checksum;
mod ipv4;
mod ipv6;
mod link;
pub mod syn_ack;
mod tcp;
