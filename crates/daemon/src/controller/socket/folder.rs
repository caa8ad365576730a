//! Folders and names of sockets.

use std::path::{Path, PathBuf};

use ratelimit_dataplane::pins::layout::PINS;

/// The folder that contains the folders of sockets.
const RUN: &str = "/run";

/// The beginning of their names.
const OUR_NAME: &str = "ratelimit";

/// The name of the daemon's socket.
pub const DAEMON: &str = "socket";

/// The name of the daemon's socket for metrics.
pub(super) const METRICS: &str = "metrics";

/// The name of the socket of an attach that waits for its confirmation.
pub const CONFIRM: &str = "confirm";

/// Returns the folder of a socket of the instance with these pins. Its name begins with `ratelimit`, whatever the name
/// of the pins is.
///
/// The socket for confirmations has its own folder, because service managers of earlier units remove the daemon's folder
/// when the daemon ends. Names of pins contain no dots, so the folders differ.
pub(super) fn folder(pins: &Path, socket: &str) -> PathBuf {
    let mut name = OUR_NAME.to_owned();
    if pins != Path::new(PINS) {
        let of_pins = pins.file_name().unwrap_or_default();
        name += &format!("-{}", of_pins.to_string_lossy());
    }
    if socket == CONFIRM {
        name += ".confirm";
    }
    Path::new(RUN).join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instance_has_its_own_folders() {
        let folder = |pins: &str, socket: &str| folder(Path::new(pins), socket).display().to_string();
        assert_eq!(folder(PINS, DAEMON), "/run/ratelimit");
        assert_eq!(folder(PINS, METRICS), "/run/ratelimit");
        assert_eq!(folder(PINS, CONFIRM), "/run/ratelimit.confirm");
        assert_eq!(folder("/sys/fs/bpf/systemd", DAEMON), "/run/ratelimit-systemd");
        assert_eq!(folder("/sys/fs/bpf/systemd", CONFIRM), "/run/ratelimit-systemd.confirm");
    }
}
