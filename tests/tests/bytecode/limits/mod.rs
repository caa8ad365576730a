//! Limits that work together: of a source, and of its parents. Single limits are in `meters`.

mod parents;
mod recycled;
