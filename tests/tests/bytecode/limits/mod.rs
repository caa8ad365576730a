//! Limits of a source, and its parents.

mod parents;
