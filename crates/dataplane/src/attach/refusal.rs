//! Why an interface would refuse the program, as far as that shows before an attach.

use std::path::Path;

use super::{how::Mode, occupant::Occupant, program_above};
use crate::{
    Error,
    pins::ours::Ours,
    sys::{drivers, interface::Interface, xdp_features::xdp_features},
};

/// Returns why an attach by the instance in `pins` would fail. `all` are the interfaces of this network namespace. Before
/// Linux 6.3, the kernel does not tell whether a driver has native XDP.
pub fn refusal(pins: &Path, all: &[Interface], interface: &Interface, mode: Option<Mode>) -> Option<Error> {
    if let Err(error) = interface.first_header() {
        return Some(error);
    }
    if let Some(program) = interface.program {
        // An instance keeps its mode.
        if Ours::of(pins).is_ok_and(|ours| ours.has_program(program.id)) {
            return None;
        }
        let occupant = Occupant::of(interface, program);
        // Without privileges, nobody knows.
        return (!occupant.is_unknown()).then(|| occupant.taken());
    }
    if let Some(error) = program_above::blocked(all, interface, pins) {
        return Some(error);
    }
    let is_native = mode.is_none_or(|mode| mode == Mode::Native);
    let cannot = || xdp_features(interface.index).is_some_and(|can| !can.native);
    // Some drivers announce native XDP only while its conditions are met.
    let why = || drivers::refusal(interface).map(|refusal| (refusal.why, refusal.fix));
    (is_native && cannot()).then(|| Error::no_native_xdp(interface.name.clone(), why()))
}
