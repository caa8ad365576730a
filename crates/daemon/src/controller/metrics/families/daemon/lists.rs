//! The lists of the file that lie on servers.

use super::super::page::Family;
use crate::controller::socket::request::RemoteList;

/// Returns the families. Without such lists, they have no samples.
pub(in crate::controller::metrics) fn families(lists: &[RemoteList]) -> Vec<Family> {
    let mut successful = Family::gauge(
        "ratelimit_config_list_fetch_successful",
        "1 if the last request for this list to its server succeeded, otherwise 0: the last copy stays in use, if there is one.",
    );
    let mut time = Family::gauge(
        "ratelimit_config_list_fetch_success_timestamp_seconds",
        "When the server last said that the copy is its list, in seconds since 1970.",
    );
    for list in lists {
        let label = [("list", list.name.as_str())];
        if list.is_known {
            successful.add(label, list.failure.is_none());
        }
        if let Some(at) = list.checked_at {
            time.add(label, u64::try_from(at.as_second()).unwrap_or_default());
        }
    }
    vec![successful, time]
}
