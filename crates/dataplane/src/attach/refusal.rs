//! Why an interface would refuse the program, as far as that shows before an attach.

use super::{how::Mode, occupant::Occupant};
use crate::{
    Error,
    sys::{interface::Interface, xdp_features::xdp_features},
};

/// Returns why an attach would fail. Before Linux 6.3, the kernel does not tell whether a driver has native XDP.
pub fn refusal(interface: &Interface, mode: Option<Mode>) -> Option<Error> {
    if let Err(error) = interface.first_header() {
        return Some(error);
    }
    if let Some(program) = interface.program {
        // An instance keeps its mode. Without privileges, nobody knows.
        let occupant = Occupant::of(interface, program);
        return (!occupant.may_be_instance()).then(|| occupant.taken());
    }
    let is_native = mode.is_none_or(|mode| mode == Mode::Native);
    let cannot = || xdp_features(interface.index).is_some_and(|can| !can.native);
    (is_native && cannot()).then(|| Error::NoNativeXdp { name: interface.name.clone() })
}
