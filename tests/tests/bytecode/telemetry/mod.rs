//! Events, and the sampled counters of sources.

mod events;
mod samples;
