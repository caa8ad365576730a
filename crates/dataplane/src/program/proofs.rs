//! Whether SYN cookies can prove addresses here.

use crate::{
    Error,
    error::UnknownError,
    program::settings::Settings,
    sys::{features, host},
};

/// The value of `net.ipv4.tcp_syncookies` with which the kernel makes a cookie for every SYN.
pub const ALWAYS: &str = "2";

/// Checks that SYN cookies act with these settings, on this kernel and in this network namespace.
///
/// # Errors
///
/// Those of [`UnknownError`].
pub fn check(settings: &Settings) -> Result<(), Error> {
    if settings.unknown == 0 {
        return Err(UnknownError::NoUnknown.into());
    }
    if let Some(missing) = features::missing_for_syn_cookies() {
        return Err(UnknownError::Function(missing).into());
    }
    match host::syn_cookies() {
        Some(found) if found == ALWAYS => Ok(()),
        found => Err(UnknownError::SynCookies(found.unwrap_or_else(|| "missing".to_owned())).into()),
    }
}
