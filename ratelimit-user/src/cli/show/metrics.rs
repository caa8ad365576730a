//! `ratelimit metrics`.

use std::path::Path;

use anyhow::{Context as _, Result};
use ratelimit_daemon::controller::metrics::client;

use crate::cli::print::{answer::Answer, output::Output};

pub(crate) fn run(pins: &Path, output: Output) -> Result<Answer> {
    let text = client::fetch(pins, output.json)?;
    let json: serde_json::Value = if output.json {
        serde_json::from_str(&text).context("cannot read the daemon's answer")?
    } else {
        serde_json::Value::Null
    };
    output.print(&json, |out| out.write_all(text.as_bytes()))?;
    Ok(Answer::Done)
}
