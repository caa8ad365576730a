//! Names of pinned programs that are being replaced by ratelimit's.

use crate::sys::interface::Attached;

/// The beginning of each name.
const REPLACED: &str = "replaced-";

/// What the name of such a pin tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplacedName {
    /// Index of the interface.
    pub index: u32,
    /// Number of its network namespace.
    pub namespace: u64,
    /// How the program was attached.
    pub mode: Attached,
}

impl ReplacedName {
    /// Returns the name of the pin.
    pub fn file(&self) -> String {
        format!("{REPLACED}{}-{}-{}", self.mode.name(), self.index, self.namespace)
    }

    /// Reads a name. None if it is another pin's.
    pub fn read(name: &str) -> Option<Self> {
        let (mode, rest) = name.strip_prefix(REPLACED)?.split_once('-')?;
        let (index, namespace) = rest.split_once('-')?;
        let mode =
            [Attached::Native, Attached::Generic, Attached::Offloaded].into_iter().find(|one| one.name() == mode)?;
        Some(Self { index: index.parse().ok()?, namespace: namespace.parse().ok()?, mode })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_the_same() {
        for mode in [Attached::Native, Attached::Generic, Attached::Offloaded] {
            let name = ReplacedName { index: 12, namespace: 4_026_531_840, mode };
            assert_eq!(ReplacedName::read(&name.file()), Some(name));
        }
        for other in
            ["program", "replaced-", "replaced-native-", "replaced-native-1", "replaced-native-1-x", "replaced-x-1-2"]
        {
            assert_eq!(ReplacedName::read(other), None);
        }
    }
}
