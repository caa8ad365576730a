//! Events, and the counters of sources.

mod events;
mod samples;
mod seen;
mod tracked;
