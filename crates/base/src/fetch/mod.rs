//! Gets a resource of another server by HTTP or HTTPS, within bounds of time, size and redirects. It blocks its thread, so a
//! thread of an asynchronous runtime must not call it. What an answer means belongs to the caller.

mod address;
#[cfg(feature = "fetch")]
mod body;
#[cfg(feature = "fetch")]
mod error;
#[cfg(feature = "fetch")]
mod get;

pub use self::address::{Address, AddressError};
#[cfg(feature = "fetch")]
pub use self::{
    error::FetchError,
    get::{Answer, Get},
};
#[cfg(feature = "fetch")]
pub use crate::trust::Trust;

#[cfg(test)]
#[cfg(feature = "fetch")]
mod tests;
