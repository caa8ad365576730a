//! From a frame to a source and its services. No decision about the source belongs here.

pub mod ipv4;
pub mod ipv6;
pub mod ipv6_extensions;
pub mod parser;
pub mod ports;
