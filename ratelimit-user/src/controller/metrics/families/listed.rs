//! What the configuration file lists, for metrics of what is missing.

use super::page::Family;
use crate::config::Config;

/// Names in the file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Listed {
    /// Its interfaces.
    pub(super) interfaces: Vec<String>,
    /// Its named lists, each with whether its file could be used.
    lists: Vec<(String, bool)>,
}

impl Listed {
    /// Returns what a file lists.
    pub(crate) fn of(config: &Config) -> Self {
        Self {
            interfaces: config.interfaces.iter().map(|interface| interface.name.clone()).collect(),
            lists: config.lists.iter().map(|list| (list.name.clone(), list.content.is_ok())).collect(),
        }
    }

    /// Returns which lists have a file that could be used.
    pub(super) fn lists(&self) -> Family {
        let mut usable = Family::gauge(
            "ratelimit_config_list_usable",
            "1 if the file of this list of the configuration file could be used, otherwise 0: the previous list stays in force.",
        );
        for (name, is_usable) in &self.lists {
            usable.add([("list", name)], *is_usable);
        }
        usable
    }
}
