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
    /// Returns what a file lists.
    pub fn of(config: &Config) -> Self {
        Self {
            interfaces: config.interfaces.iter().map(|interface| interface.name.clone()).collect(),
            lists: config.lists.iter().map(|list| (list.name.clone(), list.content.is_ok())).collect(),
        }
    }
}
