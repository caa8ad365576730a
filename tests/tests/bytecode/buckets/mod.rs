//! Buckets of sources: which source gets one, and what it starts with.

mod admission;
mod handover;
