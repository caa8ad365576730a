//! What an operator may ask of a limit, and the policy that it becomes. Rules that name a policy belong in `rules`.

pub mod algorithm;
pub mod ban_history;
pub mod limit;
pub mod policy;
