//! Access to the memory of a frame, and everything that is known of the packet so far. Reading headers belongs in
//! `parse`.

pub mod context;
pub mod first_buffer;
pub mod frame;
pub mod headers;
pub mod scattered;
pub mod transport;
pub mod verdict;
