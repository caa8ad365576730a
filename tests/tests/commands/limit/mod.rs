//! `limit`: options of a limit, their output and their effect. Lists on standard input are in `many`.

mod algorithms;
mod bounds;
mod comments;
mod covered;
pub(crate) mod features;
mod kept;
mod outranked;
mod over_limit;
mod policy_names;
mod ranges;
mod rules;
mod services;
mod several;
mod system_calls;
