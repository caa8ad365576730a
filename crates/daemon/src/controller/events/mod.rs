//! Follows events: those that the kernel program reports, and those that show only by looking again, such as the end of
//! throttling.
//!
//! Maps are looked at every two seconds while sources are followed, and every ten seconds otherwise. A cached refusal
//! can refuse a source again after a quiet time, without a report. So a thousand quiet sources are followed too.
//!
//! The daemon keeps the events of stopped clients, apart from the changes by operators.

pub mod changes;
mod cookies;
mod episode;
mod followed;
pub mod notice;
pub mod stops;
pub mod watcher;
