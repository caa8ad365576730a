//! The daemon and what it shares with commands: the configuration file, limits and settings as text, changes that can be
//! undone, SSH sessions to protect, events, metrics, and this host's part in a fleet. Reading and writing maps belongs to
//! `ratelimit-dataplane`, and answering requests to `ratelimit-server`. The command `ratelimit` uses it.

pub mod config;
pub mod controller;
pub mod crowdsec;
pub mod edits;
pub mod limit;
pub mod settings;
pub mod ssh;
