//! `ratelimit events`.

use std::{io::Write as _, path::Path, thread};

use anyhow::Result;

use super::{Answer, output::Output};
use crate::{
    controller::events::{STEP, Watcher},
    dataplane::{Error, sys::host},
};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// End after as many
    #[arg(short = 'n', value_name = "N")]
    most: Option<usize>,
}

pub(super) fn run(arguments: &Arguments, pins: &Path, output: Output) -> Result<Answer> {
    host::check()?;
    let mut watcher = Watcher::new(pins);
    drop(watcher.news()?);
    // Not among the events themselves. Nobody may be looking.
    let _ = writeln!(std::io::stderr(), "ratelimit: waiting for events, Ctrl-C ends it");
    let mut left = arguments.most.unwrap_or(usize::MAX);
    loop {
        let news = match watcher.news() {
            // What is being put in place of it is followed as well.
            Err(Error::Interrupted | Error::Unfinished { .. }) => Vec::new(),
            news => news?,
        };
        for notice in news {
            output.print(&notice, |out| writeln!(out, "{notice}"))?;
            left = left.saturating_sub(1);
            if left == 0 {
                return Ok(Answer::Done);
            }
        }
        thread::sleep(STEP);
    }
}
