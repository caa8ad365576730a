//! Rules, policies and services as operators list and change them.

pub mod batch;
pub(crate) mod batch_marker;
pub mod capacities;
pub mod costs;
pub(crate) mod expiry;
pub(crate) mod filter;
pub(crate) mod free_space;
pub mod list;
pub mod policies;
pub(crate) mod policy_slots;
pub mod resolve;
pub(crate) mod rule_key;
pub mod services;
pub mod spec;
pub mod target;
