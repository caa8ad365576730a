//! Access to the memory of a frame, and what is known of the packet so far.

pub mod context;
pub mod frame;
pub mod verdict;
