//! Marks among the pins: the addresses of SSH sessions that commands do not allow again, because an operator has deleted
//! the allow in such a session. They go with the instance.

use std::path::{Path, PathBuf};

use ratelimit_base::text::prefix::Prefix;

use crate::{Error, pins::layout};

/// Precedes the address.
const MARK: &str = "declined-";

/// Marks an address.
pub fn record(pins: &Path, peer: &Prefix) -> Result<(), Error> {
    layout::create_folder(&path(pins, peer))
}

/// Returns whether an address is marked.
pub fn is(pins: &Path, peer: &Prefix) -> bool {
    path(pins, peer).exists()
}

/// Dots are encoded, because bpffs reserves them.
fn path(pins: &Path, peer: &Prefix) -> PathBuf {
    pins.join(format!("{MARK}{peer}").replace('.', "%2E").replace('/', "%2F"))
}
