//! One file for each kind of limit, and the exchange that charges it. Which limit applies belongs in `limits`.

pub mod charge;
pub mod interface_capacity;
pub mod link_discovery;
pub mod sliding_log;
pub mod token_bucket;
pub mod two_limits;
pub mod window;
