//! Tables about requests in a build without the feature `server`: a problem.

use std::path::Path;

use anyhow::Result;
use ratelimit_base::tables::table::Table;
use ratelimit_daemon::config::{Config, RequestTables};

/// Adds a problem for each table.
pub(crate) const REQUEST_TABLES: RequestTables = refused;

fn refused(top: &Table<'_>) -> usize {
    for table in ["serve", "check", "token", "console", "user"].iter().filter_map(|name| top.get(name)) {
        table.wrong("built without `server`: remove this table, or use a build of ratelimit with all features");
    }
    0
}

/// What the tables mean for this host: nothing, since there are none.
#[derive(Debug, Default)]
pub(super) struct ServeTables {
    pub(super) is_for_serve: bool,
    pub(super) warnings: Vec<String>,
    pub(super) problems: Vec<String>,
}

impl ServeTables {
    pub(super) fn read(_: &Path, _: &Config) -> Result<Self> {
        Ok(Self::default())
    }
}

#[cfg(test)]
mod tests {
    use ratelimit_daemon::config;

    use super::*;

    #[test]
    fn tables_about_requests_name_the_feature() {
        let problems =
            config::parse("interfaces = []\n[serve]\nhttp = \"127.0.0.1:80\"\n", REQUEST_TABLES).unwrap_err();
        let [problem] = &problems[..] else { panic!("{problems:?}") };
        assert!(problem.to_string().contains("built without `server`"), "{problem}");
    }
}
