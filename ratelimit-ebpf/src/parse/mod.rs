//! Reads the source and the services of a frame. No decision about the source belongs here.
//!
//! Without services, the program reads nothing behind the IP headers, because no decision depends on it. Headers are
//! read from the first buffer. If they or the end of the packet do not lie there, the frame is parsed again from all
//! buffers.

pub mod connection;
pub mod ipv6_extensions;
pub mod outcome;
pub mod parser;
