//! `ratelimit confirm`.

use std::path::Path;

use anyhow::Result;
use ratelimit_daemon::controller::confirm::client;
use ratelimit_dataplane::sys::host;
use serde::Serialize;

use crate::cli::print::{answer::Answer, output::Output};

#[derive(Debug, Serialize)]
struct Confirmed {
    confirmed: bool,
}

pub(crate) fn run(pins: &Path, output: Output) -> Result<Answer> {
    host::check()?;
    let confirmed = client::confirm(pins)?;
    let text =
        if confirmed { "confirmed: the changes of `attach` stay" } else { "no `attach` waits for a confirmation" };
    output.print(&Confirmed { confirmed }, |out| writeln!(out, "{text}"))?;
    Ok(if confirmed { Answer::Done } else { Answer::Negative })
}
