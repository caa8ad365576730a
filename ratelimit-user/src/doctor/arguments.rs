//! Commands that findings recommend.

use std::path::Path;

use ratelimit_dataplane::pins::layout::PINS;

/// Returns this command for a user who may read everything.
pub(super) fn as_root(pins: &Path, names: &[String]) -> String {
    let names: String = names.iter().map(|name| format!(" {name}")).collect();
    format!("sudo ratelimit doctor{names}{}", of_pins(pins))
}

/// Returns the option that a command needs for this instance.
pub(super) fn of_pins(pins: &Path) -> String {
    if pins == Path::new(PINS) { String::new() } else { format!(" --pins {}", pins.display()) }
}
