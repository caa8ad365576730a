//! Rates, durations, prefixes and services as text. What depends on an instance does not belong here.

pub mod amount;
pub mod excerpt;
#[cfg(feature = "feeds")]
pub mod feed;
pub mod object;
pub mod pasted;
pub mod path;
pub mod plain;
pub mod prefix;
pub mod request_rate;
pub mod service;
pub mod shell;
pub mod throttle;
pub mod tokens;
pub mod units;
