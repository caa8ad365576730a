//! What the daemon, the server for requests and applications tell each other through Unix sockets: requests to stop
//! clients at the network card, and what the daemon shows of packets. It does no I/O. The crates of the daemon and of the
//! server use it.

pub mod stops;
pub mod view;
