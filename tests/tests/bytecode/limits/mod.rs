//! Limits that work together: of a source, of its parents, and of a fleet. Single limits are in `meters`.

mod parents;
mod recycled;
mod shares;
