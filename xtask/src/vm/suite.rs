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

/// The shell script that the guest with this kernel runs: these test programs.
pub(super) fn job(kernel: Name, extent: &Extent, programs: &[&'static str]) -> String {
    let mut script = String::from("#!/bin/sh\nfailed=0\n");
    if kernel == Name::Old {
        step(&mut script, "refusal", "ratelimit attach eth0");
    } else {
        for program in programs {
            let command = format!("/tests/{program} --test-threads=2 --show-output {}", arguments(program, extent));
            step(&mut script, program, &command);
        }
    }
    script + "exit $failed\n"
}

/// The arguments of a test program that choose its tests.
fn arguments(program: &str, extent: &Extent) -> String {
    let mut words: Vec<&str> =
        each().filter(|(of, ..)| *of == program).flat_map(|(_, test, _)| ["--skip", test]).collect();
    if program == CARDS {
        words.push("--ignored");
    }
    match extent {
        Extent::Everything => {}
        Extent::Selection => words.extend(selected().filter(|(of, _)| *of == program).map(|(_, test)| test)),
        Extent::Named(names) => words.extend(names.iter().map(String::as_str)),
    }
    words.join(" ")
}

/// Returns the test programs that have a test to run.
///
/// # Errors
///
/// Fails if there is none, or a program cannot list its tests.
pub(super) fn chosen(programs: &[(PathBuf, PathBuf)], extent: &Extent) -> Result<Vec<&'static str>> {
    let Extent::Named(names) = extent else { return Ok(PROGRAMS.to_vec()) };
    let is_name = |name: &String| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b":_".contains(&byte));
    ensure!(names.iter().all(is_name), "names of tests have only letters, digits, colons and underscores");
    let mut chosen = Vec::new();
    for (path, place) in programs {
        let Some(program) = PROGRAMS.into_iter().find(|program| place.ends_with(program)) else { continue };
        let tests = output(Command::new(path).arg("--list").args(arguments(program, extent).split(' ')))?;
        chosen.extend(tests.lines().any(|line| line.ends_with(": test")).then_some(program));
    }
    ensure!(!chosen.is_empty(), "guests run no test with such a name");
    Ok(chosen)
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
