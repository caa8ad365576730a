//! As many rules as a time allows.

use std::time::Duration;

use ratelimit_base::text::prefix::Prefix;
use ratelimit_common::identity::{
    class::{ANY, Class},
    service::Service,
    source::Source,
};

use super::{Comments, Listed, Specs, default, listed};
use crate::{
    Error,
    rules::{services::Services, target::Target},
    sys::host,
    tables::{open::Tables, rule_maps},
};

/// Calls `visit` with unexpired rules, the defaults and bans first, for so much CPU time. Returns whether these are all.
pub fn within(tables: &Tables, budget: Duration, mut visit: impl FnMut(Listed)) -> Result<bool, Error> {
    let end = host::thread_time() + budget;
    let goes_on = || host::thread_time() < end;
    let services = Services::read(tables)?;
    let mut specs = Specs::of_all(tables, Comments::read(tables)?);
    for (service, class) in [(Service::Any, ANY)].into_iter().chain(services.iter()) {
        default(&mut specs, Target::DEFAULT.of(service), class)?.into_iter().for_each(&mut visit);
    }
    let mut problem = None;
    let mut see = |source: Source, rule| {
        // A class without a service belongs to a rule that a command is writing or deleting.
        let Some(service) = services.of_class(source.class as Class) else { return };
        let target = Target::prefix(Prefix::of(&source, source.prefix)).of(service);
        match listed(&mut specs, target, &source, rule) {
            Ok(rule) => rule.into_iter().for_each(&mut visit),
            Err(error) => problem = Some(error),
        }
    };
    for (source, ban) in tables.bans()?.all() {
        if !goes_on() {
            return Ok(false);
        }
        see(source, ban);
    }
    let is_whole = rule_maps::each_while(tables, goes_on, see)?;
    problem.map_or(Ok(is_whole), Err)
}
