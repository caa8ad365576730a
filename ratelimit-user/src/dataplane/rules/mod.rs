//! Rules, policies, services, costs and capacities in the operator's words. Which program runs belongs in `instance`.

pub mod batch;
pub mod capacities;
pub mod costs;
pub(crate) mod expiry;
pub(crate) mod filter;
pub(crate) mod largest_debt;
pub(crate) mod levels;
pub mod list;
pub mod policies;
pub(crate) mod policy_slots;
pub mod resolve;
pub(crate) mod rule_key;
pub mod services;
pub mod spec;
pub mod target;
