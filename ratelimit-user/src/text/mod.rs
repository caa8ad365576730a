//! Rates, durations, prefixes and services as text. What depends on an instance does not belong here.

pub(crate) mod amount;
pub(crate) mod excerpt;
pub(crate) mod feed;
pub(crate) mod object;
pub mod path;
pub(crate) mod plain;
pub mod prefix;
pub mod request_rate;
pub mod service;
pub(crate) mod throttle;
pub mod units;
