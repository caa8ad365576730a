//! Rules, policies, services, costs and capacities in the operator's words. Which program runs belongs in `instance`.

pub mod batch;
pub mod capacities;
pub mod change_mark;
pub mod comments;
pub mod costs;
pub mod expiry;
pub mod filter;
pub mod list;
pub mod overlap;
pub mod owners;
pub mod policies;
pub mod repair;
pub mod resolve;
pub mod rule_key;
pub mod services;
pub mod spec;
pub mod suspend;
pub mod target;
