//! The program of an instance on an interface without a link, as other tools put it back after an own `--replace`.

use std::path::Path;

use crate::dataplane::{Error, pins::ours::Ours, sys::interface};

/// Removes the programs of the instance in `pins` from the interfaces with `wanted` names, unless they have a link.
/// Returns the names of those that had one.
pub(crate) fn remove(pins: &Path, wanted: impl Fn(&String) -> bool) -> Result<Vec<String>, Error> {
    let (ours, mut names) = (Ours::of(pins)?, Vec::new());
    for interface in interface::list()?.into_iter().filter(|interface| wanted(&interface.name)) {
        if let Some(program) = interface.program.filter(|program| ours.has_program(program.id)) {
            // The kernel refuses this for a program with a link.
            if interface::remove_program(interface.index, program.mode, None).is_ok() {
                names.push(interface.name);
            }
        }
    }
    Ok(names)
}
