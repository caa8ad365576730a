//! Sources, services and the classes of packets. No verdict belongs here.

pub mod class;
pub mod filter;
pub mod fine_filter;
pub mod narrow;
pub mod parent;
pub mod service;
pub mod source;
pub mod text;
