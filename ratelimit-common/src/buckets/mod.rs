//! The words of a source's bucket and of its sliding log. Arithmetic belongs in `meters`.

pub mod bucket;
pub mod seen;
pub mod sliding_log;
