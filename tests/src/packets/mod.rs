//! Packets: built header by header, or recorded from real programs. Nothing here sends them.

pub mod captures;
pub mod frame;
pub mod wrap;
pub mod wrappings;
