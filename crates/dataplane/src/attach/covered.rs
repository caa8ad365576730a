//! An instance whose pins cannot be seen, because something is mounted over them. Its programs run on.

use std::path::Path;

use super::occupant::Occupant;
use crate::{Error, error::PinsError, pins::mounts, sys::interface};

/// Returns that there is no instance, or that its pins are covered. An interface of this network namespace tells that: it
/// carries a program of ratelimit by a link that nothing visible holds.
pub fn not_attached(pins: &Path) -> Error {
    let Some(mount) = mounts::over(pins) else { return Error::NotAttached(pins.to_owned()) };
    let all = interface::list().unwrap_or_default();
    let is_covered =
        |it: &interface::Interface| it.program.is_some_and(|on| Occupant::of(it, on).is_covered_instance());
    match all.iter().find(|interface| is_covered(interface)) {
        Some(interface) => {
            let (path, uncover) = (pins.to_owned(), mounts::uncover(&mount));
            PinsError::Covered { path, interface: interface.name.clone(), mount, uncover }.into()
        }
        None => Error::NotAttached(pins.to_owned()),
    }
}
