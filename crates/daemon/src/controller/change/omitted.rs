//! Settings that a file omits, and that cannot return to their defaults while the instance runs.

use ratelimit_dataplane::program::loader::{RequestedSettings, Settings};

/// The file omits such a setting, and the instance has another value than the default.
#[derive(Debug, thiserror::Error)]
#[error(
    "the file omits {key}, which is {default} by default, but the running instance has {key} = {running}: write `{key} = {running}` into [settings], or run `ratelimit detach --all` first"
)]
pub struct Omitted {
    key: &'static str,
    default: String,
    running: String,
}

/// Checks that a file omits no such setting.
///
/// # Errors
///
/// Fails with [`Omitted`] for the first one.
pub fn check(running: &Settings, requested: &RequestedSettings) -> Result<(), Omitted> {
    let default = Settings::default();
    if requested.ipv6_prefix.is_none() && running.ipv6_prefix != default.ipv6_prefix {
        let [default, running] = [default, *running].map(|settings| settings.ipv6_prefix.to_string());
        return Err(Omitted { key: "ipv6-prefix", default, running });
    }
    if requested.cells.is_none() && running.cells == 0 {
        return Err(Omitted { key: "front", default: "true".to_owned(), running: "false".to_owned() });
    }
    Ok(())
}
