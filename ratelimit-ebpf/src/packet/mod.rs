//! Access to the memory of a frame, and everything that is known of the packet so far. Reading headers belongs in
//! `parse`.

pub mod context;
pub mod frame;
