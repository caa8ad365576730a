//! The job of a guest: the test programs, with the selected tests.

use std::{path::PathBuf, process::Command};

use anyhow::{Context as _, Result, ensure};

use super::{
    choice::{EXCLUDED, Extent, SELECTED},
    kernel::Name,
};
use crate::run::output;

/// The test programs, in the order in which they run.
pub(super) const PROGRAMS: [&str; 5] = ["bytecode", "commands", "sandbox", "network", CARDS];

/// The program whose tests need two spare network cards, and are ignored on hosts.
const CARDS: &str = "nic";

/// The excluded tests, each with its program and the reason.
fn each() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    EXCLUDED.iter().flat_map(|&(program, reason, tests)| tests.iter().map(move |&test| (program, test, reason)))
}

/// The selected tests, each with its program.
fn selected() -> impl Iterator<Item = (&'static str, &'static str)> {
    SELECTED.iter().flat_map(|&(program, tests)| tests.iter().map(move |&test| (program, test)))
}

/// Marks the beginning of a program's output in the report.
pub(super) const BEGIN: &str = "== begin ";
/// Marks its end, followed by the program's name and exit status.
pub(super) const END: &str = "== end ";

/// The shell script that the guest with this kernel runs.
pub(super) fn job(kernel: Name, extent: Extent) -> String {
    let mut script = String::from("#!/bin/sh\nfailed=0\n");
    if kernel == Name::Old {
        step(&mut script, "refusal", "ratelimit attach eth0");
    } else {
        for program in PROGRAMS {
            let mut command = format!("/tests/{program} --test-threads=2 --show-output");
            for (_, test, _) in each().filter(|(of, ..)| *of == program) {
                command += " --skip ";
                command += test;
            }
            if program == CARDS {
                command += " --ignored";
            }
            if extent == Extent::Selection {
                for test in selected().filter(|(of, _)| *of == program).map(|(_, test)| test) {
                    command += " ";
                    command += test;
                }
            }
            step(&mut script, program, &command);
        }
    }
    script + "exit $failed\n"
}

fn step(script: &mut String, name: &str, command: &str) {
    *script += &format!("echo '{BEGIN}{name}'\n{command}\nrc=$?\n[ $rc = 0 ] || failed=1\necho \"{END}{name} $rc\"\n");
}

/// Checks that every named test exists. A wrong name would exclude or select nothing.
pub(super) fn check(programs: &[(PathBuf, PathBuf)]) -> Result<()> {
    for (program, test) in each().map(|(program, test, _)| (program, test)).chain(selected()) {
        let found = programs.iter().find(|(_, place)| place.ends_with(program));
        let (path, _) = found.with_context(|| format!("no test program {program}"))?;
        let tests = output(Command::new(path).arg("--list"))?;
        let is_meant = |line: &str| {
            test.starts_with(':')
                || if test.ends_with([':', '_']) { line.starts_with(test) } else { line == format!("{test}: test") }
        };
        // The test programs select every test whose name contains the given one.
        let mut found = tests.lines().filter(|line| line.contains(test)).peekable();
        ensure!(found.peek().is_some(), "xtask/src/vm/choice.rs: {program} has no test {test}");
        ensure!(found.all(is_meant), "xtask/src/vm/choice.rs: {program} has other tests whose names contain {test}");
    }
    Ok(())
}

/// The excluded tests as text.
pub(super) fn excluded() -> impl Iterator<Item = String> {
    each().map(|(program, test, reason)| format!("{program}: {test}: {reason}"))
}
