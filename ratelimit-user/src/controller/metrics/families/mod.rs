//! What is told in numbers, one file for each subject. A new number is a line in one of them, or a file and a line in [`of_instance`].

mod admission;
mod build;
mod cells;
mod interfaces;
mod policies;
mod process;
mod reloads;
mod rules;
mod sources;
mod tables;
mod top;
mod traffic;

use ratelimit_common::maps::{control::Control, cpu::Cpu};

use super::page::Family;
use crate::dataplane::{
    Error,
    instance::read_only::View,
    readings::{
        gauges,
        totals::{self, Rules, Tracked},
    },
};

pub(super) use self::{build::families as of_build, process::families as of_process, reloads::Reloads};

/// An instance, with what several subjects want to know of it.
struct Scene<'a> {
    view: &'a View,
    control: Control,
    cpus: Cpu,
    tracked: Tracked,
    rules: Rules,
}

/// The families of an instance, with so many sources by name.
pub(super) fn of_instance(view: &View, named_sources: usize) -> Result<Vec<Family>, Error> {
    let tables = view.tables();
    let scene = Scene {
        view,
        control: tables.control()?,
        cpus: gauges::of_cpus(tables)?,
        tracked: totals::tracked(tables)?,
        rules: totals::rules(tables)?,
    };
    let mut families = traffic::families(tables)?;
    families.extend(interfaces::families(&scene)?);
    families.extend(sources::families(&scene)?);
    families.extend(rules::families(&scene));
    families.extend(policies::families(&scene)?);
    families.extend(tables::families(&scene)?);
    families.extend(admission::families(&scene)?);
    families.extend(cells::families(&scene)?);
    if named_sources > 0 {
        families.extend(top::families(tables, named_sources)?);
    }
    Ok(families)
}
