//! `limit`: options of a limit, and what each of them shows.

mod algorithms;
mod bounds;
pub(crate) mod features;
mod over_limit;
mod rules;
mod services;
