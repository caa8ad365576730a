//! Requests to stop clients at the network card: what they say, and which of them become limits in the kernel. Nothing
//! here does I/O: callers pass the time.
//!
//! An application refuses a client, and names the client's connection. The address of that client then gets a low limit
//! for a short time. Proofs that the request is true belong to `controller/stops`.

mod answer;
mod book;
mod event;
mod place;
mod request;
mod span;
mod stop;
mod stopped;
#[cfg(test)]
mod tests;

pub use self::{
    answer::{Answer, Reason},
    book::{Book, Outcome},
    event::{End, Event, Events, Numbered},
    place::{Place, around},
    request::{Connection, LINE, Request, is_rule},
    span::LONGEST,
    stop::{Asker, State, Stop},
    stopped::{Senseless, Stopped},
};
#[cfg(test)]
use self::{book::Refusal, request::RequestError};
