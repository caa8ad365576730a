//! Packets over a limit: bans, soft and elastic limits, and shadow.

mod ban;
mod ban_history;
mod ban_table;
mod elastic;
mod shadow;
mod soft;
