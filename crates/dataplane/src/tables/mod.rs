//! The maps of an instance as typed handles, their layouts and their memory. What an entry means to an operator belongs
//! in `rules` and `readings`.

pub mod bans;
pub mod changes;
pub mod counters;
pub mod kept_array;
pub mod layout_check;
pub mod list_maps;
pub mod listed;
pub mod memory;
pub mod open;
pub mod origin;
pub mod prefix_key;
pub mod rule_maps;
pub mod spared;
pub mod table;
