//! Every command through the real binary, and every error.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod algorithms;
mod asking;
mod attaching;
mod bounds;
mod confirm;
mod costs;
mod cut_short;
mod daemon;
mod distinct;
mod doctor;
mod errors;
mod events;
mod excess;
mod features;
mod footprint;
mod gauges;
mod interfaces;
mod listing;
mod logging;
mod manager;
mod many;
mod metrics;
mod privileges;
mod prometheus;
mod replacing;
mod rules;
mod sequences;
mod service;
mod services;
mod settings;
mod shadow;
mod shares;
mod ssh;
mod undo;
