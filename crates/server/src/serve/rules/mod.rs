//! Rules that callers change while the server runs: where they are kept, the log of their changes, and what is in force.

mod audit;
mod book;
mod entry;
mod error;
mod file;
mod follow;
mod in_force;
mod joined;
mod local;
mod problem;
mod restore;
mod shared;
mod store;
mod teams;

pub(in crate::serve) use self::{
    book::{Author, Book, Change, Done, Keeper},
    error::RuleError,
    follow::follow,
    in_force::{InForce, Operators, RULE},
    problem::{Problem, few_of},
    shared::Member,
    store::StoreError,
};

#[cfg(test)]
mod tests;
