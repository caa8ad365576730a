//! Attacks on the product, played live: each function plays one and returns what got through and who was hurt.
//!
//! A new attack is a file here with a function that returns a [`Row`], and a line in [`ALL`]. The network test `attacks`
//! then asserts its bound, and `cargo xtask attacks --record` writes its row into docs/floods.md.

mod ban_table;
mod contention;
mod known_sources;
mod new_sources;
mod parents;
mod raw_ip;
mod row;
mod slow_limit;
mod stage;

pub use self::row::{Row, table};

/// One attack.
pub struct Attack {
    /// Name of its test.
    pub name: &'static str,
    /// Plays it for at most some seconds. Needs root.
    pub play: fn() -> Row,
}

/// All attacks, in the order of the table.
pub const ALL: [Attack; 8] = [
    Attack { name: "new_sources", play: new_sources::play },
    Attack { name: "new_sources_with_unknown_limited", play: new_sources::play_with_unknown_limited },
    Attack { name: "known_sources", play: known_sources::play },
    Attack { name: "slow_limit", play: slow_limit::play },
    Attack { name: "ban_table", play: ban_table::play },
    Attack { name: "parents", play: parents::play },
    Attack { name: "contention", play: contention::play },
    Attack { name: "raw_ip", play: raw_ip::play },
];
