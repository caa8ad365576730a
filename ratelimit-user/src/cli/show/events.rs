//! `ratelimit events`.

use std::{io::Write as _, num::NonZero, path::Path, thread};

use anyhow::Result;

use crate::{
    cli::print::{answer::Answer, output::Output},
    controller::events::watcher::{STEP, Watcher},
    dataplane::{Error, sys::host},
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// End after this many events
    #[arg(short = 'n', value_name = "N")]
    most: Option<NonZero<usize>>,
}

pub(crate) fn run(arguments: &Arguments, pins: &Path, output: Output) -> Result<Answer> {
    host::check()?;
    let mut watcher = Watcher::new(pins);
    drop(watcher.news()?);
    // Standard error keeps this line out of the events. A failure to print it does not matter.
    let _ = writeln!(std::io::stderr(), "ratelimit: waiting for events (Ctrl-C to end)");
    let mut left = arguments.most.map_or(usize::MAX, NonZero::get);
    loop {
        let notices = match watcher.news() {
            // Another command is replacing the instance, which is followed too.
            Err(Error::Interrupted | Error::Unfinished { .. }) => Vec::new(),
            notices => notices?,
        };
        for notice in notices {
            output.print(&notice, |out| writeln!(out, "{notice}"))?;
            left = left.saturating_sub(1);
            if left == 0 {
                return Ok(Answer::Done);
            }
        }
        thread::sleep(STEP);
    }
}
