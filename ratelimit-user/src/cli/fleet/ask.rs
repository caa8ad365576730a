//! Asks the daemon about the fleet of this host.

use std::path::Path;

use anyhow::{Result, bail};
use ratelimit_daemon::controller::socket::{
    client,
    folder::DAEMON,
    request::{Reply, Request},
};

/// Asks the daemon of this host.
pub(super) fn ask(pins: &Path, request: Request) -> Result<Reply> {
    match client::ask(pins, DAEMON, request)? {
        Reply::Fleet(None) => {
            bail!("this host is in no fleet: add the table [fleet] with an engine to the file of the daemon")
        }
        Reply::Failed(message) => bail!(message),
        reply => Ok(reply),
    }
}
