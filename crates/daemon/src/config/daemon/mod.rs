//! Tables that only the daemon needs: metrics, the fleet, the state file, CrowdSec, and the sockets of applications and of
//! readers.

#[cfg(feature = "crowdsec")]
pub mod crowdsec;
#[cfg(not(feature = "crowdsec"))]
#[path = "absent_crowdsec.rs"]
pub mod crowdsec;
#[cfg(not(feature = "fleet"))]
#[path = "absent_fleet.rs"]
pub mod fleet;
pub mod kept;
pub mod metrics;
#[cfg_attr(
    not(feature = "lists"),
    expect(dead_code, unused_imports, unused_variables, reason = "only builds with lists on servers read their keys")
)]
pub mod remote;
pub mod state;
pub mod stops;
pub mod view;

#[cfg(feature = "fleet")]
pub use ratelimit_fleet::table as fleet;

/// Returns what is wrong with a table or a key that needs a feature that this build lacks.
#[cfg(not(all(feature = "crowdsec", feature = "fleet", feature = "lists")))]
fn absent(feature: &str) -> String {
    format!("built without `{feature}`: remove this, or use a build of ratelimit with all features")
}
