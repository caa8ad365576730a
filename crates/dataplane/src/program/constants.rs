//! Writes the [constants](Constant) of the program into its instructions.

use object::{Object as _, ObjectSection as _, SectionKind};
use ratelimit_common::maps::constants::Constant;

use crate::{
    Error,
    error::Tried as _,
    program::settings::{LEARNED, SWITCHES, Settings},
    sys::host,
};

/// Bytes of an instruction.
const INSTRUCTION: usize = 8;
/// Operation that writes its last four bytes into a register.
const MOVE: u8 = 0xb7;

/// Writes the constants of these settings into an object. Its parsers need an aligned object, as every allocator aligns
/// so large a one.
///
/// # Errors
///
/// [`Error::Bpf`] if the object cannot be parsed, which a test rules out.
pub(super) fn write(mut object: Vec<u8>, settings: &Settings) -> Result<Vec<u8>, Error> {
    let (ports, mut places) = (host::chosen_ports(), Vec::new());
    each(&object, |at, constant| places.push((at, constant)))?;
    for (at, constant) in places {
        object[at..at + size_of::<u32>()].copy_from_slice(&value(constant, settings, ports).to_le_bytes());
    }
    Ok(object)
}

/// Calls a function with the place of each constant in an object.
fn each(object: &[u8], mut found: impl FnMut(usize, Constant)) -> Result<(), Error> {
    let parsed = object::File::parse(object).tried("broken build")?;
    let code = parsed.sections().filter(|section| section.kind() == SectionKind::Text);
    for (begin, length) in code.filter_map(|section| section.file_range()) {
        let (begin, end) = (begin as usize, (begin + length) as usize);
        for at in (begin..end).step_by(INSTRUCTION) {
            let Some(&[MOVE, _, _, _, ref number @ ..]) = object.get(at..at + INSTRUCTION) else { continue };
            let constant = <[u8; 4]>::try_from(number).ok().map(u32::from_le_bytes).and_then(Constant::of_placeholder);
            if let Some(constant) = constant {
                found(at + INSTRUCTION - size_of::<u32>(), constant);
            }
        }
    }
    Ok(())
}

fn value(constant: Constant, settings: &Settings, own_ports: [u32; 2]) -> u32 {
    match constant {
        Constant::InjectedClock => settings.injected_clock.into(),
        Constant::Cells => settings.cells,
        Constant::OldCells => settings.old_cells,
        Constant::EpochShift => settings.epoch_shift(),
        Constant::Sample => settings.sample.into(),
        // Cells remember known sources.
        Constant::Unknown => (settings.unknown != 0 && settings.cells != 0).into(),
        Constant::UnknownLearned => (settings.unknown == LEARNED && settings.cells != 0).into(),
        Constant::ProveTcp => (settings.prove_tcp && settings.unknown != 0 && settings.cells != 0).into(),
        Constant::Own => (settings.own != 0).into(),
        Constant::OwnPortsFirst => own_ports[0],
        Constant::OwnPortsLast => own_ports[1],
        Constant::InterfaceMatters => (settings.parents || settings.elastic).into(),
        Constant::Resize => settings.moving.into(),
        Constant::Ipv6Prefix => settings.ipv6_prefix,
        Constant::Leases => {
            if settings.leases {
                settings.leases()
            } else {
                0
            }
        }
        Constant::Divide => (settings.leases && settings.divide).into(),
        switch => {
            let switch = SWITCHES.iter().find(|candidate| candidate.constant == switch);
            switch.is_some_and(|switch| *(switch.of)(&mut settings.clone())).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::loader;

    #[test]
    fn the_program_has_every_constant_until_it_is_written() {
        let (object, mut found) = (loader::object().unwrap(), Vec::new());
        each(&object, |_, constant| found.push(constant)).unwrap();
        assert!(Constant::ALL.iter().all(|constant| found.contains(constant)), "{found:?}");
        // Anywhere, so that no other instruction and no data has one.
        let written = write(object, &Settings::default()).unwrap();
        let left = |bytes: &&[u8; 4]| Constant::of_placeholder(u32::from_le_bytes(**bytes)).is_some();
        assert_eq!(written.array_windows::<4>().find(left), None);
    }
}
