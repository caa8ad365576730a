//! The program of an instance on an interface without a link, as other tools put it back after an own `--replace`.

use std::path::Path;

use crate::{
    Error,
    pins::ours::Ours,
    sys::interface::{self, Interface},
};

/// Removes the programs of the instance in `pins` from the `wanted` interfaces. They have no link. Returns the names of
/// those that had one.
pub fn remove(pins: &Path, wanted: impl Fn(&Interface) -> bool) -> Result<Vec<String>, Error> {
    let (ours, mut names) = (Ours::of(pins)?, Vec::new());
    for interface in interface::list()?.into_iter().filter(wanted) {
        if let Some(program) = interface.program.filter(|program| ours.has_program(program.id)) {
            interface::remove_program(interface.index, program.mode, None)?;
            names.push(interface.name);
        }
    }
    Ok(names)
}
