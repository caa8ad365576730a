//! Reads the source and the services of a frame. No decision about the source belongs here.
//!
//! Without services, the program reads nothing behind the IP headers, because no decision depends on it. Headers are
//! read from the first buffer; the length is that of the whole frame.

pub mod ethernet;
pub mod ipv4;
pub mod ipv6;
pub mod ipv6_extensions;
pub mod outcome;
pub mod parser;
pub mod ports;
