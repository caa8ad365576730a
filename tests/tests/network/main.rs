//! Real packets through a real driver: what a limit lets through to a socket, while a flood runs.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bans;
mod budget;
mod interrupted;
mod jumbo;
mod limits;
mod receiver;
mod reload;
mod replies;
mod resizing;
mod services;
mod shadow;
mod survival;
mod throttles;
mod versions;
