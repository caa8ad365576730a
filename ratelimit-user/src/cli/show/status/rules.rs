//! The limits that apply without a rule for the source, and the numbers of rules.

use anyhow::Result;
use ratelimit_base::text::service::ServiceName;
use ratelimit_common::{
    identity::{class::ANY, service::Service},
    limits::policy::UNLIMITED_ID,
    rules::rule::{APPLICATION, BANNED},
};
use ratelimit_dataplane::{
    readings::totals::{self, Kind},
    rules::{list, services::Services},
    tables::open::Tables,
};
use serde::Serialize;

use crate::cli::print::policy_row::PolicyRow;

/// The limit for all sources without a rule.
#[derive(Debug, Serialize)]
pub(crate) struct DefaultLimit {
    pub(crate) service: String,
    pub(crate) policy: PolicyRow,
}

impl DefaultLimit {
    pub(crate) fn read(tables: &Tables) -> Result<Vec<Self>> {
        let mut limits = Vec::new();
        let services = Services::read(tables)?;
        for (service, class) in [(Service::Any, ANY)].into_iter().chain(services.iter()) {
            if let Some(rule) = list::default_of(tables, class)? {
                limits.push(Self { service: ServiceName(service).to_string(), policy: PolicyRow::of(&rule.spec) });
            }
        }
        Ok(limits)
    }
}

/// Numbers of rules in force for sources and prefixes.
#[derive(Debug, Serialize)]
pub(crate) struct Rules {
    pub(crate) limits: u64,
    pub(crate) allows: u64,
    /// Without bans.
    pub(crate) denies: u64,
    pub(crate) bans: u64,
    /// Limits that applications have asked for, which `limits` leaves out.
    pub(crate) stops: u64,
}

impl Rules {
    pub(crate) fn read(tables: &Tables) -> Result<Self> {
        let rules = totals::rules(tables)?;
        let of = |wanted: Kind| {
            let is_own = |origin: u8| !matches!(origin, BANNED | APPLICATION);
            let these = rules.in_force.iter().filter(|((kind, origin), _)| *kind == wanted && is_own(*origin));
            these.map(|(_, number)| number).sum::<u64>()
        };
        let defaults = tables.classes.all()?.iter().filter(|entry| entry.default_policy != UNLIMITED_ID).count() as u64;
        Ok(Self {
            limits: of(Kind::Limit).saturating_sub(defaults),
            allows: of(Kind::Allow),
            denies: of(Kind::Deny),
            bans: rules.bans,
            stops: rules.in_force.get(&(Kind::Limit, APPLICATION)).copied().unwrap_or(0),
        })
    }

    pub(crate) const fn any(&self) -> bool {
        self.limits + self.allows + self.denies + self.bans + self.stops > 0
    }
}
