//! `ratelimit upgrade`.

use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use crate::{
    cli::print::{answer::Answer, output::Output},
    dataplane::{Instance, sys::host},
};

#[derive(Debug, Serialize)]
struct Upgraded {
    upgraded: bool,
}

pub(crate) fn run(pins: &Path, output: Output) -> Result<Answer> {
    host::check()?;
    let upgraded = Instance::take_over(pins)?;
    let text = if upgraded {
        "converted from another version: rules, buckets and counters are kept"
    } else {
        "nothing to do: there is no instance of another version"
    };
    output.print(&Upgraded { upgraded }, |out| writeln!(out, "{text}"))?;
    Ok(Answer::Done)
}
