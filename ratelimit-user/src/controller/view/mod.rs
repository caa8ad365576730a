//! Where other programs read what the daemon shows. Nothing here changes anything.

mod reader;
mod server;
mod service;

pub(crate) use self::service::Service;
