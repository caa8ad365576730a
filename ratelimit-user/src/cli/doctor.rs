//! `ratelimit doctor`.

use std::{
    io::{self, Write},
    path::Path,
};

use anyhow::Result;

use super::{Answer, output::Output};
use crate::doctor::{self, Finding, Severity};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Interfaces to look at, attached or not [default: all that are attached]
    #[arg(value_name = "IFACE")]
    interfaces: Vec<String>,
}

pub(super) fn run(arguments: &Arguments, pins: &Path, output: Output) -> Result<Answer> {
    let findings = doctor::examine(pins, &arguments.interfaces)?;
    output.print(&findings, |out| write(out, &findings))?;
    let is_well = findings.iter().all(|finding| finding.severity < Severity::Warning);
    Ok(if is_well { Answer::Done } else { Answer::Negative })
}

/// A line for what is good, a paragraph for everything else.
fn write(out: &mut dyn Write, findings: &[Finding]) -> io::Result<()> {
    for finding in findings {
        let Finding { check, severity, interface, what, why, mend } = finding;
        let place = interface.as_ref().map_or_else(String::new, |interface| format!("{interface}, "));
        writeln!(out, "{:<9}{place}{}: {what}", severity.name(), check.name())?;
        let more = why.iter().cloned().chain(mend.iter().map(|mend| format!("mend: {mend}")));
        for line in more {
            writeln!(out, "{:9}{line}", "")?;
        }
    }
    Ok(())
}
