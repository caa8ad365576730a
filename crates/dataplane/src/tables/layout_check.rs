//! Compares pinned maps with those of this build's object. aya reuses a pinned map without comparing its layout.

use std::path::Path;

use aya::maps::MapInfo;
use ratelimit_common::maps::names;

use crate::{
    Error,
    pins::ownership,
    program::loader::{self, Definition},
};

/// Checks that the maps pinned in `pins` are laid out as this build needs them.
///
/// # Errors
///
/// [`Error::Damaged`] with the first difference. [`Error::Pins`] if one belongs to another user.
pub fn check(pins: &Path) -> Result<(), Error> {
    let definitions = loader::definitions()?;
    for (name, definition) in names::PINNED.into_iter().zip(&definitions) {
        ownership::check_file(&pins.join(name))?;
        difference(pins, name, definition).map_err(|detail| Error::Damaged { path: pins.to_owned(), detail })?;
    }
    Ok(())
}

/// Returns an error that says what differs in the map pinned under this name.
fn difference(pins: &Path, name: &str, definition: &Definition) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("{name}: {error}");
    let info = MapInfo::from_pin(pins.join(name)).map_err(|error| failed(&error))?;
    let kind = info.map_type().map_err(|error| failed(&error))?;
    let found = Definition {
        kind: kind as u32,
        key_size: info.key_size(),
        value_size: info.value_size(),
        max_entries: info.max_entries(),
    };
    // The operator chooses the sizes of these.
    let is_sized = names::SIZED.contains(&name);
    let requested = if is_sized { Definition { max_entries: found.max_entries, ..*definition } } else { *definition };
    if found == requested {
        return Ok(());
    }
    let Definition { key_size, value_size, max_entries, .. } = found;
    Err(format!("{name} is a {kind:?} of {key_size} + {value_size} bytes, {max_entries} entries"))
}
