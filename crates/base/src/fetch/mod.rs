//! Gets a resource of another server by HTTP or HTTPS, within bounds of time, size and redirects. It blocks its thread, so a
//! thread of an asynchronous runtime must not call it. What an answer means belongs to the caller.

mod address;
mod body;
mod error;
mod get;

pub use self::{
    address::{Address, AddressError},
    error::FetchError,
    get::{Answer, Get},
};
pub use crate::trust::Trust;

#[cfg(test)]
mod tests;
