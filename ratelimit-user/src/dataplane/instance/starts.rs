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

/// Sets how the policies of the instance begin, if they do not yet.
///
/// # Errors
///
/// Those of [`Instance::open_in_force`], and [`Error::Bpf`] if the kernel refuses. The next try completes the change.
pub fn put(pins: &Path, starts: Starts) -> Result<(), Error> {
    if starts::are(View::open(pins)?.tables(), starts)? {
        return Ok(());
    }
    let mut instance = Instance::open_in_force(pins)?;
    let mark = ChangeMark::begin(Some(pins))?;
    starts::set(&mut instance.tables, starts).or_else(|error| {
        repair(&mut instance.tables, &LanePairs::new())?;
        Err(error)
    })?;
    mark.end();
    Ok(())
}
