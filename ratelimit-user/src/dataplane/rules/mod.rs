//! Rules, policies, services, costs and capacities in the operator's words. Which program runs belongs in `instance`.

pub mod batch;
pub mod capacities;
pub(crate) mod change_mark;
pub(crate) mod comments;
pub mod costs;
pub(crate) mod expiry;
pub(crate) mod filter;
pub mod list;
pub mod policies;
pub(crate) mod repair;
pub mod resolve;
pub(crate) mod rule_key;
pub mod services;
pub mod spec;
pub(crate) mod suspend;
pub mod target;
