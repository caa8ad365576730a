//! One file for each kind of limit or budget. The choice of the limit belongs in `limits`.

pub mod budget;
pub mod interface_capacity;
pub mod link_discovery;
pub mod sliding_log;
pub mod token_bucket;
pub mod window;
