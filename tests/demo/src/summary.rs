//! The summary.

use std::io::{self, Write};

use anyhow::Result;

use crate::{
    check,
    client::Requests,
    stage::{End, Played},
    words,
};

/// Prints the results of each phase and its promises. Returns whether all were kept.
pub(crate) fn print(played: &[Played], requests: &Requests, end: &End) -> Result<bool> {
    let mut out = io::stdout().lock();
    writeln!(out, "\n== Summary (numbers of packets)\n")?;
    for played in played {
        phase(&mut out, played, requests)?;
    }
    let checks = check::all(played, requests, end);
    for check in &checks {
        writeln!(out, "{} {}", if check.held { "  ok  " } else { "FAILED" }, check.text)?;
    }
    let failed: Vec<_> = checks.iter().filter(|check| !check.held).collect();
    writeln!(out)?;
    match failed.first() {
        None => writeln!(out, "The limits were held, and who behaves did not notice.")?,
        Some(first) => writeln!(out, "NOT as promised, {} of {}: {}", failed.len(), checks.len(), first.text)?,
    }
    Ok(failed.is_empty())
}

fn phase(out: &mut impl Write, played: &Played, requests: &Requests) -> io::Result<()> {
    let interval = played.interval();
    let floods = interval.floods();
    writeln!(out, "{}, {:.1} s: {}", played.phase.name, interval.time().as_secs_f64(), played.phase.story)?;
    if floods.offered > 0 {
        // The host's own counters are read slightly later.
        let lost = floods.passed.saturating_sub(interval.handled);
        writeln!(
            out,
            "  floods      offered {}, dropped in the kernel before the network stack {}",
            words::about(floods.offered),
            words::about(floods.dropped)
        )?;
        writeln!(
            out,
            "              reached the host {}, of which it had to throw away {} as its queue was full",
            words::about(floods.passed),
            words::about(lost)
        )?;
    }
    let requests = requests.between(played.first.end, played.last.end);
    let failed = requests.failed();
    writeln!(
        out,
        "  web client  {} pages/s, half within {}, 99 % within {}, {failed} of {} requests failed\n",
        words::rate((requests.count() - failed) as u64, interval.time()),
        words::latency(requests.latency(0.5)),
        words::latency(requests.latency(0.99)),
        requests.count(),
    )
}
