//! Rules that callers change while the server runs: where they are kept, the log of their changes, and what is in force.

mod audit;
mod book;
mod error;
mod file;
mod in_force;
mod store;

pub(in crate::serve) use self::{
    book::{Author, Book, Change, Done, Keeper},
    error::RuleError,
    in_force::{InForce, Operators},
};

#[cfg(test)]
mod tests;
