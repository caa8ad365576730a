//! Everything that happens above a limit: soft and elastic throttling, cached refusals, events and bans. Asking a limit
//! belongs in `limits`.
//!
//! Sources that are banned only after many drops get no cached refusal, so that each drop is counted. Elastic limits
//! with another action than drop get none either, because a cached refusal has no bits for it. Cached refusals of an
//! elastic limit hold while the interface has no room.

pub mod ban;
pub mod overrun;
pub mod soft;
