//! `ratelimit events`.

use std::{io::Write as _, num::NonZero, path::Path, thread};

use anyhow::Result;
use ratelimit_daemon::controller::events::{
    changes,
    stops::{self, Follower},
    watcher::{STEP, Watcher},
};
use ratelimit_dataplane::{Error, instance::read_only::View, sys::host};

use crate::cli::print::{answer::Answer, output::Output};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// End after this many events. With --past, print only so many, the newest
    #[arg(short = 'n', value_name = "N")]
    most: Option<NonZero<usize>>,
    /// Print the recorded changes by operators and the daemon, and clients that it has stopped, the oldest first, and end
    #[arg(long)]
    past: bool,
}

pub(crate) fn run(arguments: &Arguments, pins: &Path, output: Output) -> Result<Answer> {
    host::check()?;
    if arguments.past {
        View::open(pins)?;
        let mut past = changes::past(pins)?;
        past.extend(stops::past(pins));
        past.sort_by_key(|notice| notice.at);
        let most = arguments.most.map_or(usize::MAX, NonZero::get);
        let last = &past[past.len().saturating_sub(most)..];
        last.iter().try_for_each(|notice| output.print(notice, |out| writeln!(out, "{notice}")))?;
        return Ok(if last.is_empty() { Answer::Negative } else { Answer::Done });
    }
    let (mut watcher, mut stops) = (Watcher::new(pins), Follower::of(pins));
    drop(watcher.news()?);
    // Standard error keeps this line out of the events. A failure to print it does not matter.
    let _ = writeln!(std::io::stderr(), "ratelimit: waiting for events (Ctrl-C to end)");
    let mut left = arguments.most.map_or(usize::MAX, NonZero::get);
    loop {
        let mut notices = match watcher.news() {
            // Another command is replacing the instance, which is followed too.
            Err(Error::Interrupted | Error::Unfinished { .. }) => Vec::new(),
            notices => notices?,
        };
        notices.extend(stops.news());
        notices.sort_by_key(|notice| notice.at);
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
