//! Proofs of addresses: what a forger cannot send. It is asked only where the rate of unknown sources is spent, so calm
//! traffic does not pay for it.
//!
//! A packet of an established TCP connection proves its source: its sender has answered the host's SYN or SYN-ACK. A
//! forger would have to know both ports of a living connection. UDP and ICMP have no proof.
//!
//! Where it is wanted, first SYNs to this host get a SYN cookie. Whoever acknowledges it has received it, so its address is
//! proven.
//!
//! Each CPU has a budget of look-ups, and all CPUs together one of SYN cookies. Attackers can spend both.

mod cookie;
mod forwarded;
mod maximum_segment;
pub mod proof;
