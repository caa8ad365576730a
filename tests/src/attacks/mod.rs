//! Attacks on the product, played live: the product's own commands, real packets, and the kernel's clock. Each function
//! plays one attack and returns what got through and who was hurt.
//!
//! A new attack is a function in a file of `floods` or `frames` that returns a [`Row`], a line in [`ALL`], and its
//! name in the network test `attacks`. That test asserts the bound. `cargo xtask attacks --record` writes the row into
//! docs/floods.md.

mod floods;
mod frames;
mod row;
mod stage;

use self::{
    floods::{ban_table, budget, contention, customer, known_sources, new_sources, parents, proofs, slow_limit},
    frames::{answers, disguises, fragments, joined, link_discovery, malformed, raw_ip, resets},
};

pub use self::row::{Row, table};

/// One attack.
#[derive(Clone, Copy)]
pub struct Attack {
    /// Name of its test.
    pub name: &'static str,
    /// Plays it for at most some seconds. Needs root, and the product's binary.
    pub play: fn() -> Row,
}

/// All attacks, in the order of the table.
pub const ALL: [Attack; 30] = [
    attack("new_sources", new_sources::play),
    attack("new_sources_with_unknown_limited", new_sources::play_with_unknown_limited),
    attack("new_sources_beside_a_list", new_sources::play_beside_a_list),
    attack("new_sources_of_icmp", new_sources::play_icmp),
    attack("known_sources", known_sources::play),
    attack("patient_known_sources", known_sources::play_patient),
    attack("syns_with_cookies", proofs::play_syns),
    attack("guessed_cookies", proofs::play_guesses),
    attack("syns_of_one_victim", proofs::play_victim),
    attack("repeated_cookie", proofs::play_repeated_cookie),
    attack("slow_limit", slow_limit::play),
    attack("deleted_slow_limit", slow_limit::play_deleted),
    attack("addresses_of_one_source", customer::play_within_a_source),
    attack("customer", customer::play),
    attack("customer_with_a_parent", customer::play_with_a_parent),
    attack("spent_budget", budget::play),
    attack("spent_budget_below_a_parent", parents::spend_the_budget),
    attack("recycled_bucket_below_a_parent", parents::recycle_the_bucket),
    attack("ban_table", ban_table::play),
    attack("contention", contention::play),
    attack("answers", answers::play),
    attack("resets", resets::play),
    attack("link_discovery", link_discovery::play),
    attack("link_discovery_elsewhere", link_discovery::play_elsewhere),
    attack("joined_packets", joined::play),
    attack("malformed", malformed::play),
    attack("fragments", fragments::play),
    attack("disguises", disguises::play),
    attack("raw_ip", raw_ip::play),
    attack("raw_ip_behind_tags", raw_ip::play_behind_tags),
];

const fn attack(name: &'static str, play: fn() -> Row) -> Attack {
    Attack { name, play }
}
