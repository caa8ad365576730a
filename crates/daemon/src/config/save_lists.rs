//! Writes lists as a part of a configuration file. It names files and does not copy entries.

use std::collections::BTreeMap;

use ratelimit_base::text::{pasted, units};
use ratelimit_common::{
    limits::policy::NAME_BYTES,
    rules::rule::{CROWDSEC, FLEET},
};
use ratelimit_dataplane::{
    Error,
    lists::{
        action::Action,
        listing::{self, Listing},
    },
    tables::open::Tables,
};
use serde::Serialize;

use super::{
    daemon::remote,
    saved::{Saved, spec},
};

/// The lists of a file.
#[derive(Debug, Default, Serialize)]
pub(super) struct Lists {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    list: Vec<List>,
    /// Why other lists are left out.
    #[serde(skip)]
    omitted: Vec<String>,
}

#[derive(Debug, Serialize)]
struct List {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(flatten)]
    remote: Option<remote::Saved>,
    action: String,
}

/// Returns a name for the policy of a list that no other policy has.
fn free_name(list: &str, policies: &BTreeMap<String, Saved>) -> String {
    let names = (0_u64..).map(|number| match number {
        0 => format!("list-{list}"),
        _ => format!("list-{number}"),
    });
    names.filter(|name| name.len() <= NAME_BYTES).find(|name| !policies.contains_key(name)).unwrap_or_default()
}

impl Lists {
    /// Returns the lists in force, and adds their limits to the policies of the file.
    pub(super) fn of(tables: &Tables, policies: &mut BTreeMap<String, Saved>) -> Result<Self, Error> {
        let mut lists = Self::default();
        for list in listing::all(tables)? {
            lists.add(&list, policies);
        }
        Ok(lists)
    }

    fn add(&mut self, list: &Listing, policies: &mut BTreeMap<String, Saved>) {
        let Listing { name, file, expires_in, .. } = list;
        // The fleet or CrowdSec sets it again.
        if matches!(list.origin, FLEET | CROWDSEC) {
            return;
        }
        let (Some(file), None) = (file, expires_in) else {
            let why = expires_in.map_or_else(
                || "comes from no file".to_owned(),
                |left| format!("ends in {}", units::write_duration(left)),
            );
            let print = format!("`ratelimit list show {name} --entries`");
            let print = pasted::text(&print);
            self.omitted.push(format!("# The list {name} is left out, because it {why}. {print} prints it.\n"));
            return;
        };
        let action = match &list.action {
            Action::Deny => "deny".to_owned(),
            Action::Limit(limit) => {
                let saved = spec(limit);
                let named = limit.name().filter(|known| policies.get(*known).is_none_or(|known| *known == saved));
                let policy = named.map_or_else(|| free_name(name, policies), str::to_owned);
                policies.insert(policy.clone(), saved);
                policy
            }
        };
        let remote = remote::Saved::of(file, name);
        if remote.is_some() {
            self.omitted.push(format!(
                "# The list {name} comes from a server. Other keys of it, such as every and token-file, are left out.\n"
            ));
        }
        let file = remote.is_none().then(|| file.to_string_lossy().into_owned());
        self.list.push(List { name: name.clone(), file, remote, action });
    }

    /// Returns comments on the lists that are left out.
    pub(super) fn comments(&self) -> String {
        self.omitted.concat()
    }
}
