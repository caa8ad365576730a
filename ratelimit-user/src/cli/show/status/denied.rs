//! What a deny of a source would drop.

use anyhow::Result;
use ratelimit_base::text::{prefix::Prefix, service::ServiceName};
use ratelimit_dataplane::{
    rules::{
        list::around,
        services::Services,
        target::{Sources, Target},
    },
    spared::{renew, unapplied},
    tables::open::Tables,
};

/// What a deny of all packets of a source would do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Deny {
    /// Services for which the source has a rule of its own, which applies all the same.
    pub(crate) except: Vec<String>,
    /// What this host spares of the source.
    pub(crate) spared: Option<String>,
}

impl Deny {
    /// Returns what a deny of this source would do.
    pub(crate) fn of(tables: &Tables, source: &str) -> Result<Self> {
        let prefix: Prefix = source.parse()?;
        let spared = unapplied::around(&renew::in_force(tables)?, prefix).map(|place| place.to_string());
        let mut except = Vec::new();
        for (service, class) in Services::read(tables)?.iter() {
            let first = around::around(tables, &prefix.source(), class)?.into_iter().next();
            // Of rules for wider prefixes, the deny takes the place.
            if first.is_some_and(|rule| rule.target == Target::from(Sources::Prefix(prefix)).of(service)) {
                except.push(ServiceName(service).to_string());
            }
        }
        except.sort_unstable();
        Ok(Self { except, spared })
    }
}
