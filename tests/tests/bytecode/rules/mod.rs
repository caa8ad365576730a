//! Rules: which rule applies to a packet, which bucket it is charged to, and what it costs.

mod changing_parts;
mod cost;
mod covered;
mod edited_lists;
mod filters;
mod largest_debt;
pub(crate) mod lists;
mod lookup;
mod narrow;
mod precedence;
mod redirects;
mod services;
mod spared;
