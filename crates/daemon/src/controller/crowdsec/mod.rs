//! Asks the local API of CrowdSec for decisions, and denies the sources that they are about, as a list of the instance.
//!
//! One thread keeps the decisions, and puts the list in force. Another one waits for each answer, so that decisions end
//! in time while the API does not answer.

mod ask;
mod bouncer;
mod kernel;
mod list;
mod service;
mod shown;
mod told;

pub use self::{
    service::Service,
    shown::{Counts, Shown},
};
