//! `ratelimit upgrade`.

use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use super::{Answer, output::Output};
use crate::dataplane::{Instance, sys::host};

#[derive(Debug, Serialize)]
struct Upgraded {
    upgraded: bool,
}

pub(super) fn run(pins: &Path, output: Output) -> Result<Answer> {
    host::check()?;
    let upgraded = Instance::take_over(pins)?;
    let text = if upgraded {
        "taken over from another version: rules, buckets and counts are as they were"
    } else {
        "nothing to do: no other version has left anything"
    };
    output.print(&Upgraded { upgraded }, |out| writeln!(out, "{text}"))?;
    Ok(Answer::Done)
}
