//! One limit across a fleet.

mod model;
