//! Names of pinned links. Each tells what is needed to attach to the same interface again.

use std::path::Path;

use ratelimit_common::rules::rule::{COMMAND, CONFIG};

/// Precedes the link's id if a configuration file has requested it.
const OF_FILE: &str = "config-";

/// Precedes the link's id if a command has requested it, and a configuration file lists the interface too.
const LISTED: &str = "listed-";

/// Precedes the link's id if the program runs in the network stack.
const GENERIC: &str = "generic-";

/// Precedes the link's id if the interface is in shadow, although others may not be.
const SHADOW: &str = "shadow-";

/// What the name of a pinned link tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkName {
    /// The interface's name when it was attached, or one that it got later.
    pub interface: String,
    /// Origin of the attachment: one of [`ratelimit_common::rules::rule`].
    pub origin: u8,
    /// Whether a configuration file lists the interface, if a command has attached it.
    pub is_listed: bool,
    /// Whether the program runs in the network stack.
    pub is_generic: bool,
    /// Whether the interface is in shadow, although others may not be.
    pub is_shadow: bool,
    /// The link's id, because names of interfaces are reused.
    pub link: u32,
}

impl LinkName {
    /// Returns the name of the pin. Dots, as in names of VLAN interfaces, are encoded, because bpffs reserves them.
    pub fn file(&self) -> String {
        let owner = match (self.origin, self.is_listed) {
            (CONFIG, _) => OF_FILE,
            (_, true) => LISTED,
            (_, false) => "",
        };
        let mode = if self.is_generic { GENERIC } else { "" };
        let shadow = if self.is_shadow { SHADOW } else { "" };
        format!("{}@{owner}{mode}{shadow}{}", self.interface.replace('%', "%25").replace('.', "%2E"), self.link)
    }

    /// Reads the name of a pin.
    pub fn read(pin: &Path) -> Self {
        let file = pin.file_name().unwrap_or_default().to_string_lossy();
        let (interface, rest) = file.rsplit_once('@').unwrap_or((&*file, ""));
        let of_file = rest.strip_prefix(OF_FILE);
        let listed = rest.strip_prefix(LISTED);
        let rest = of_file.or(listed).unwrap_or(rest);
        let generic = rest.strip_prefix(GENERIC);
        let rest = generic.unwrap_or(rest);
        let shadow = rest.strip_prefix(SHADOW);
        Self {
            interface: interface.replace("%2E", ".").replace("%25", "%"),
            origin: if of_file.is_some() { CONFIG } else { COMMAND },
            is_listed: listed.is_some(),
            is_generic: generic.is_some(),
            is_shadow: shadow.is_some(),
            link: shadow.unwrap_or(rest).parse().unwrap_or(0),
        }
    }

    /// Returns whether the pin stays when the interface is deleted, because a configuration file lists it.
    pub fn is_kept(&self) -> bool {
        self.origin == CONFIG || self.is_listed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_the_same() {
        for name in ["eth0", "eth0.100", "a%2Eb", "x@y", "config-", "generic-1"] {
            for (origin, is_listed) in [(COMMAND, false), (COMMAND, true), (CONFIG, false)] {
                for (is_generic, is_shadow) in [(false, false), (false, true), (true, false), (true, true)] {
                    let interface = name.to_owned();
                    let name = LinkName { interface, origin, is_listed, is_generic, is_shadow, link: 12 };
                    let file = name.file();
                    assert!(!file.contains('.'), "{file}");
                    assert_eq!(LinkName::read(&Path::new("/sys/fs/bpf/ratelimit/links").join(file)), name);
                }
            }
        }
    }

    #[test]
    fn names_of_earlier_versions_are_read() {
        let read = |file: &str| LinkName::read(Path::new(file));
        let name = |origin| LinkName {
            interface: "eth0".to_owned(),
            origin,
            is_listed: false,
            is_generic: false,
            is_shadow: false,
            link: 7,
        };
        assert_eq!([read("eth0@7"), read("eth0@config-7")], [name(COMMAND), name(CONFIG)]);
    }
}
