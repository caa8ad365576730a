//! An attach below an interface that has a program. The kernel refuses it in every mode.

use std::path::Path;

use crate::{
    Error,
    attach::occupant::Occupant,
    pins::ours::Ours,
    sys::{
        interface::{self, Interface},
        layers,
    },
};

/// Returns the error of an attach below an interface that has a program of another owner than the instance in `pins`. The
/// kernel refuses it in every mode.
pub fn blocked(all: &[Interface], lower: &Interface, pins: &Path) -> Option<Error> {
    // Without privileges, nobody knows.
    let ours = Ours::of(pins).ok()?;
    layers::directly_above(all, lower).find_map(|upper| {
        let program = upper.program.filter(|program| !ours.has_program(program.id))?;
        Some(above(lower, upper, &Occupant::of(upper, program)))
    })
}

/// Returns the error of an attach below an interface that has any program.
pub(super) fn refused(lower: &Interface) -> Option<Error> {
    let all = interface::list().ok()?;
    let lower = all.iter().find(|interface| interface.index == lower.index)?;
    let (upper, program) =
        layers::directly_above(&all, lower).find_map(|upper| upper.program.map(|program| (upper, program)))?;
    Some(above(lower, upper, &Occupant::of(upper, program)))
}

fn above(lower: &Interface, upper: &Interface, occupant: &Occupant) -> Error {
    Error::Above {
        name: lower.name.clone(),
        upper: upper.name.clone(),
        program: occupant.to_string(),
        removal: occupant.removal(),
    }
}
