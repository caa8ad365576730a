//! The maps of an instance as typed handles, their layouts and their memory. What an entry means to an operator belongs
//! in `rules` and `readings`.

pub mod bans;
pub(crate) mod changes;
pub mod counters;
pub mod kept_array;
pub(crate) mod layout_check;
pub mod list_maps;
pub(crate) mod listed;
pub mod memory;
pub mod open;
pub(crate) mod origin;
pub(crate) mod prefix_key;
pub(crate) mod rule_maps;
pub mod table;
