//! What several crates of ratelimit need and none owns: rates and prefixes as text, tables of the configuration file,
//! trust in servers, requests by HTTP, messages to the system, and files that only their owner may write. It knows no
//! program, no map and no rule, so it must not contain aya. All other crates of the user side use it.

#[cfg(feature = "times")]
pub mod certificate_end;
#[cfg(feature = "certificates")]
pub mod certificates;
#[cfg(feature = "address")]
pub mod fetch;
#[cfg(feature = "system")]
pub mod files;
pub mod jitter;
#[cfg(feature = "system")]
pub mod notify;
pub mod stream;
#[cfg(feature = "tables")]
pub mod tables;
pub mod text;
#[cfg(feature = "trust")]
pub mod trust;
#[cfg(feature = "system")]
pub mod unix_group;
