//! An engine without a server: hosts tell each other what they count, and each one computes its shares itself.

mod counts;
mod datagram;
pub mod mesh;
mod peers;
mod replica;
mod seal;
pub mod settings;
mod state;
