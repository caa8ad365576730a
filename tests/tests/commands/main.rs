//! Every command by the real binary, and every error.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod attach;
mod bans;
mod changeable;
mod check;
mod confirm;
mod cost;
mod crash;
mod deny_allow;
mod detach;
mod doctor;
mod errors;
mod events;
mod integrations;
mod limit;
mod lists;
mod locks;
mod many;
mod metrics;
mod output;
mod own_network;
mod ownership;
mod packages;
mod pasted;
mod pins;
mod privileges;
mod reload;
mod run;
mod save;
mod schema;
mod serve;
mod show;
mod status;
mod unfinished_upgrade;

/// The folder of pins unless `--pins` names another one.
const PINS: &str = "/sys/fs/bpf/ratelimit";
