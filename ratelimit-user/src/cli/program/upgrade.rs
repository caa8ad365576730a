//! `ratelimit upgrade`.

use std::path::Path;

use anyhow::Result;
use ratelimit_daemon::controller::socket::client as socket;
use ratelimit_dataplane::{Instance, sys::host};
use serde::Serialize;

use crate::cli::print::{answer::Answer, output::Output};

#[derive(Debug, Serialize)]
struct Upgraded {
    upgraded: bool,
}

pub(crate) fn run(pins: &Path, output: Output) -> Result<Answer> {
    host::check()?;
    let upgraded = Instance::take_over(pins)?;
    let text = if upgraded {
        "this version is in force now: rules, buckets and counters are kept"
    } else {
        "nothing to do: there is no instance of another version"
    };
    output.print(&Upgraded { upgraded }, |out| {
        writeln!(out, "{text}")?;
        if upgraded && socket::is_listening(pins) {
            writeln!(
                out,
                "a daemon of another version runs, and changes nothing any more: restart it with `systemctl restart ratelimit`"
            )?;
        }
        Ok(())
    })?;
    Ok(if upgraded { Answer::Done } else { Answer::Unchanged })
}
