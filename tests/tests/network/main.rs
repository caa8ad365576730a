//! Real packets through a real driver: how many pass a limit to a socket under a flood.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod attacks;
mod bans;
mod connections;
mod dhcp;
mod downloads;
mod jumbo;
mod limits;
mod raw_ip;
mod receiver;
mod reload;
mod renamed;
mod reply;
mod resize;
mod services;
mod shadow;
mod survival;
mod throttles;
mod tunnels;
mod upgrade;
