//! `ratelimit confirm`.

use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use super::{Answer, output::Output};
use crate::{controller::confirm, dataplane::sys::host};

#[derive(Debug, Serialize)]
struct Confirmed {
    confirmed: bool,
}

pub(super) fn run(pins: &Path, output: Output) -> Result<Answer> {
    host::check()?;
    let confirmed = confirm::confirm(pins)?;
    let text = if confirmed { "confirmed: the attach stays" } else { "no attach waits to be confirmed" };
    output.print(&Confirmed { confirmed }, |out| writeln!(out, "{text}"))?;
    Ok(if confirmed { Answer::Done } else { Answer::Negative })
}
