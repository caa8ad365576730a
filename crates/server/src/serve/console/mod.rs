//! Pages for people: rules with previews of their changes, the log of changes, and what is decided.
//!
//! The pages need no build step, load nothing from other hosts, and work without their script.

mod history;
mod packets;
mod pages;
mod parts;
mod places;
mod routes;
mod secure;
mod state;
mod visit;

pub(super) use self::{
    routes::{Pages, READERS},
    state::Console,
};
