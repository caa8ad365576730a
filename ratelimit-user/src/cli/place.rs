//! What the commands in the output are about: the instance and the network namespace of this command.

use std::{
    env,
    ffi::OsString,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
};

use ratelimit_base::text::pasted::{self, Place};
use ratelimit_dataplane::pins::layout::PINS;

/// The variable that names the folder of pins where `--pins` does not.
pub(super) const VARIABLE: &str = "RATELIMIT_PINS";

/// Has all further output name the place.
pub(super) fn name(pins: &Path, netns: Option<&str>) {
    // A shell for root, or the next one, may not have the variable.
    let is_usual = pins == Path::new(PINS) && env::var_os(VARIABLE).is_none_or(|set| set.is_empty() || set == PINS);
    pasted::name(Place { pins: (!is_usual).then(|| pins.to_owned()), netns: netns.map(str::to_owned) });
}

/// Does so for a command line that cannot be parsed.
pub(super) fn name_as_written(words: impl Iterator<Item = OsString>) {
    let words: Vec<OsString> = words.collect();
    let value = |option: &str| {
        let next = words.iter().zip(words.iter().skip(1)).find(|(word, _)| *word == option);
        let joined = format!("{option}=");
        let in_one = words.iter().find_map(|word| word.as_bytes().strip_prefix(joined.as_bytes()));
        next.map(|(_, value)| value.clone()).or_else(|| in_one.map(|value| OsString::from_vec(value.to_vec())))
    };
    let pins = value("--pins").or_else(|| env::var_os(VARIABLE)).map_or_else(|| PathBuf::from(PINS), PathBuf::from);
    name(&pins, value("--netns").and_then(|name| name.into_string().ok()).as_deref());
}
