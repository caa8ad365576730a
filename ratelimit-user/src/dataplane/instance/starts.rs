//! Sets with which part of the burst sources begin.

use std::path::Path;

use super::{Instance, read_only::View};
use crate::dataplane::{
    Error,
    rules::{
        change_mark::ChangeMark,
        policies::{
            lanes::LanePairs,
            starts::{self, Starts},
        },
        repair::repair,
    },
};

/// Sets how the policies of the instance begin, if they do not yet. They do in the generation `before` of the rules. Returns
/// the generation in which they do.
///
/// # Errors
///
/// Those of [`Instance::open_in_force`], and [`Error::Bpf`] if the kernel refuses. The next try completes the change.
pub fn put(pins: &Path, starts: Starts, before: Option<u32>) -> Result<u32, Error> {
    let view = View::open(pins)?;
    let generation = view.tables().control()?.generation;
    if before == Some(generation) || starts::are(view.tables(), starts)? {
        return Ok(generation);
    }
    let mut instance = Instance::open_in_force(pins)?;
    let mark = ChangeMark::begin(Some(pins))?;
    starts::set(&mut instance.tables, starts).or_else(|error| {
        repair(&mut instance.tables, &LanePairs::new())?;
        Err(error)
    })?;
    mark.end();
    Ok(instance.tables.control()?.generation)
}
