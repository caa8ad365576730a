//! An engine without a server: hosts tell each other what they count, and each one computes its shares itself.
//!
//! They send to each other directly, so that a count takes one step. The library chitchat 0.13 passes values on in several
//! steps. A datagram can end it by a panic, and it has no way to seal datagrams.

mod counts;
mod datagram;
pub mod mesh;
pub(super) mod message;
mod peers;
mod replica;
mod seal;
pub mod settings;
mod state;
