//! The table `[crowdsec]` in a build without the feature `crowdsec`: a problem.

use ratelimit_base::tables::table::Table;

use super::absent;

/// A table that cannot be there.
#[derive(Debug, Clone, PartialEq)]
pub enum CrowdSec {}

/// Adds a problem if the file has the table.
pub(in crate::config) fn read(top: &Table<'_>) -> Option<CrowdSec> {
    if let Some(table) = top.get("crowdsec") {
        table.wrong(absent("crowdsec"));
    }
    None
}
