//! What the daemon, the server for requests and applications tell each other through Unix sockets: requests to stop
//! clients at the network card, what the daemon shows of packets, and what a host knows of its fleet. It does no I/O. The crates of the daemon and of the
//! server use it.

pub mod fleet;
pub mod stops;
pub mod view;
