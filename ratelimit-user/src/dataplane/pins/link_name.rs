//! Names of pinned links. Each contains the interface and the origin.

use std::path::Path;

use ratelimit_common::rules::rule::{COMMAND, CONFIG};

/// Precedes the link's id if a configuration file has requested it.
const OF_FILE: &str = "config-";

/// Returns the name of a pin: the interface's present name, and the link's id, because names are reused. Dots, as in
/// names of VLAN interfaces, are encoded, because bpffs reserves them.
pub(crate) fn of(interface: &str, origin: u8, link: u32) -> String {
    let owner = if origin == CONFIG { OF_FILE } else { "" };
    format!("{}@{owner}{link}", interface.replace('%', "%25").replace('.', "%2E"))
}

/// Returns the interface's name and the origin in a pin's name.
pub(crate) fn read(pin: &Path) -> (String, u8) {
    let file = pin.file_name().unwrap_or_default().to_string_lossy();
    let (name, link) = file.rsplit_once('@').unwrap_or((&*file, ""));
    let origin = if link.starts_with(OF_FILE) { CONFIG } else { COMMAND };
    (name.replace("%2E", ".").replace("%25", "%"), origin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_the_same() {
        for name in ["eth0", "eth0.100", "a%2Eb", "x@y", "config-"] {
            for origin in [COMMAND, CONFIG] {
                let file = of(name, origin, 12);
                assert!(!file.contains('.'), "{file}");
                assert_eq!(read(&Path::new("/sys/fs/bpf/ratelimit/links").join(file)), (name.to_owned(), origin));
            }
        }
    }
}
