//! Where other programs read what the daemon shows, and change rules if its file allows that.

mod changes;
mod reader;
mod server;
mod service;
mod words;

pub use self::service::Service;
