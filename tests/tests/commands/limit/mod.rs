//! `limit`: options of a limit, their output and their effect. Lists on standard input are in `many`.

mod algorithms;
mod bounds;
mod covered;
pub(crate) mod features;
mod over_limit;
mod ranges;
mod rules;
mod services;
mod system_calls;
