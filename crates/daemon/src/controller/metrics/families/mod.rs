//! The metric families, one file per subject. To add a metric, add a line in one of them, or add a file and a line in
//! [`of_instance`].

mod admission;
mod build;
mod cells;
mod daemon;
mod interfaces;
mod names;
pub(super) mod page;
mod policies;
mod reading;
mod rules;
mod sources;
mod tables;
mod top;
mod traffic;

use ratelimit_dataplane::{Error, instance::read_only::View};

#[cfg(feature = "crowdsec")]
pub(super) use self::daemon::crowdsec::families as of_crowdsec;
pub(super) use self::{
    build::families as of_build,
    daemon::{
        fleet::families as of_fleet, lists::families as of_remote, process::families as of_process, reloads::Reloads,
        stops::families as of_stops,
    },
    top::Reported,
};
use self::{page::Family, reading::Reading};
use crate::config::listed::Listed;

/// Returns the families of an instance, with metrics for what the file lists, and for this number of
/// sources by name. `reported` is what the last reading has said about these.
pub(super) fn of_instance(
    view: &View,
    listed: &Listed,
    named_sources: usize,
    reported: &mut Reported,
) -> Result<Vec<Family>, Error> {
    let (tables, reading) = (view.tables(), Reading::of(view)?);
    let mut families = traffic::families(tables)?;
    families.extend(interfaces::families(&reading, &listed.interfaces)?);
    families.extend(sources::families(&reading)?);
    families.extend(rules::families(&reading));
    families.extend(rules::of_lists(&reading)?);
    families.push(rules::of_listed(&listed.lists));
    families.extend(policies::families(&reading)?);
    families.extend(tables::families(&reading)?);
    families.extend(admission::families(&reading)?);
    families.extend(cells::families(&reading)?);
    if named_sources > 0 {
        families.extend(top::families(tables, named_sources, reported)?);
    }
    Ok(families)
}
