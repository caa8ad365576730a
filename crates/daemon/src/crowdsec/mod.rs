//! Decisions of CrowdSec: what answers of its local API say, and which sources they deny. Nothing here does I/O: callers
//! pass what they read, and the time.
//!
//! Each decision has a number. A source is denied while any decision about it stands, so the end of one of several
//! changes nothing.

mod answer;
mod decisions;
mod state;

pub use self::{
    answer::{Answer, AnswerError, Question},
    decisions::Decisions,
    state::State,
};
