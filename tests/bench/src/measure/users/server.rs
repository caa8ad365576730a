//! The web server: nginx with one process in the victim's namespace.

use std::fs;

use anyhow::{Result, ensure};
use ratelimit_tests::{Nginx, Sandbox};

use crate::flood::SERVER_PORT;

/// Bytes of the page.
pub(super) const PAGE: usize = 2_000;

/// Checks that this machine can run the server beside a flood.
///
/// # Errors
///
/// Fails if nginx or a second CPU is missing.
pub(crate) fn check() -> Result<()> {
    ensure!(Nginx::is_there(), "nginx is missing");
    ensure!(fs::exists("/sys/devices/system/cpu/cpu1")?, "the flood needs a second CPU");
    Ok(())
}

/// Starts the server on the CPU of the calling thread. It accepts connections when this returns.
///
/// # Errors
///
/// Fails if nginx does not start.
pub(super) fn start(sandbox: &Sandbox) -> Result<Nginx> {
    Nginx::start(sandbox, SERVER_PORT, "", &".".repeat(PAGE))
}
