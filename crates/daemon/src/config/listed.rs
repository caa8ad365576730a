//! What a file lists, by name.

use super::Config;

/// Names in the file.
#[derive(Debug, Clone, Default)]
pub struct Listed {
    /// Its interfaces.
    pub interfaces: Vec<String>,
    /// Its named lists, each with whether its file could be used.
    pub lists: Vec<(String, bool)>,
}

impl Listed {
    /// Returns what a file lists. `is_unusable` tells whether a list stays as it was.
    pub fn of(config: &Config, is_unusable: impl Fn(&str) -> bool) -> Self {
        Self {
            interfaces: config.interfaces.iter().map(|interface| interface.name.clone()).collect(),
            lists: config.lists.iter().map(|list| (list.name.clone(), !is_unusable(&list.name))).collect(),
        }
    }
}
