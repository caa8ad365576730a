//! `ratelimit doctor`.

use std::{
    io::{self, Write},
    path::Path,
};

use anyhow::Result;

use crate::{
    cli::print::{answer::Answer, output::Output},
    doctor::{
        self,
        finding::{Finding, Severity},
    },
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Interfaces to check, attached or not [default: all attached interfaces]
    #[arg(value_name = "IFACE")]
    interfaces: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments, pins: &Path, output: Output) -> Result<Answer> {
    let findings = doctor::examine(pins, &arguments.interfaces)?;
    output.print(&findings, |out| write(out, &findings))?;
    let is_well = findings.iter().all(|finding| finding.severity < Severity::Warning);
    Ok(if is_well { Answer::Done } else { Answer::Negative })
}

/// Writes a line for each good finding, and a paragraph for every other one.
fn write(out: &mut dyn Write, findings: &[Finding]) -> io::Result<()> {
    for finding in findings {
        let Finding { check, severity, interface, what, why, fix } = finding;
        let place = interface.as_ref().map_or_else(String::new, |interface| format!("{interface}, "));
        writeln!(out, "{:<9}{place}{}: {what}", severity.name(), check.name())?;
        let more = why.iter().cloned().chain(fix.iter().map(|fix| format!("fix: {fix}")));
        for line in more {
            writeln!(out, "{:9}{line}", "")?;
        }
    }
    Ok(())
}
