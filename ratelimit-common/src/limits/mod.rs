//! The limits that an operator may set, and the policy that each becomes. Rules that name a policy belong in `rules`.

pub mod algorithm;
pub mod ban_history;
pub mod limit;
pub mod limit_error;
pub mod policy;
