//! Which clients make almost all requests of their addresses. Only those may be stopped at the network card, because that
//! stops everybody who shares the address. Nothing here does I/O: callers pass the time.

mod address;
mod history;
mod table;
#[cfg(test)]
mod tests;
mod who;

pub use self::{
    address::Origin,
    history::Finding,
    table::Sharing,
    who::{Who, is_identity},
};
