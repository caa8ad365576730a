//! What happens above a limit: soft and elastic throttling, cached refusals and bans. Asking a limit belongs in `limits`.

pub mod ban;
pub mod ban_history;
pub mod overrun;
pub mod refusals;
pub mod soft;
