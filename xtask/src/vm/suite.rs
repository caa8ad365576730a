//! What guests run: the programs, and the tests that mean nothing under emulation.

use std::{path::PathBuf, process::Command};

use anyhow::{Context as _, Result, ensure};

use super::{kernel::Name, output};

/// The test programs, in the order in which they run.
pub(super) const PROGRAMS: [&str; 5] = ["bytecode", "commands", "sandbox", "network", CARDS];

/// The one whose tests are all ignored, because a host has no two network cards to spare.
const CARDS: &str = "nic";

/// Tests that are left out, each with the reason; a name that ends in colons is a file of tests.
const EXCLUDED: [(&str, &str, &str); 36] = [
    (
        "bytecode",
        "differential::the_host_build_says_of_every_frame_what_etherparse_says",
        "no kernel plays a part in it",
    ),
    ("bytecode", "precision::ten_per_second_offered_a_million_get_ten", "a million packets take 40 s under emulation"),
    ("bytecode", "race::of_two_limits_neither_is_spent_by_the_refusals_of_the_other", MINUTES),
    ("bytecode", "schedules::every_verdict_is_the_models_and_every_bound_holds", MINUTES),
    ("bytecode", "parents::every_verdict_is_the_models_and_a_refusal_spends_nothing", MINUTES),
    ("bytecode", "precedence::of_ipv4_packets", MINUTES),
    ("bytecode", "precedence::of_ipv6_packets", MINUTES),
    ("bytecode", "front::evictions_and_changes_elsewhere_change_no_verdict", MINUTES),
    ("bytecode", "front::crowd::in_crowded_cells_nobody_gets_more_than_its_limit_and_everybody_its_rate", MINUTES),
    ("bytecode", "front::rhythms::alone_every_rhythm_gets_what_its_limit_gives", MINUTES),
    ("bytecode", "front::rhythms::by_the_coarse_clock_every_rhythm_gets_nearly_the_same_and_never_more", MINUTES),
    ("bytecode", "front::samples::a_busy_source_within_its_limit_is_listed_with_about_what_it_sent", MINUTES),
    ("bytecode", "bypass::no_wrapping_gets_past_the_rule_of_a_source", MINUTES),
    ("bytecode", "parse::where_the_malformed_passes_it_is_judged_by_its_source_if_it_has_one", MINUTES),
    ("bytecode", "algorithms::schedules::", MINUTES),
    ("bytecode", "algorithms::races::", MINUTES),
    ("bytecode", "algorithms::costs::", MINUTES),
    ("bytecode", "algorithms::elastic::", MINUTES),
    ("bytecode", "algorithms::offenders::", MINUTES),
    ("bytecode", "algorithms::soft::", MINUTES),
    ("bytecode", "algorithms::switches::", MINUTES),
    ("bytecode", "replies::generated::", MINUTES),
    ("bytecode", "replies::never::", MINUTES),
    ("commands", "algorithms::", WORDS),
    ("commands", "bounds::", WORDS),
    ("commands", "listing::", WORDS),
    ("commands", "ssh::", WORDS),
    ("commands", "services::rules_for_services_inside_a_denied_prefix_are_mentioned", WORDS),
    ("commands", "services::bad_services_and_parents_change_nothing", WORDS),
    (
        "sandbox",
        "floods_in_parallel_lose_nothing",
        "an emulated processor stands still while another fills its ring (0.3 % lost on 6.1)",
    ),
    ("network", "limits::a_source_over_its_limit_is_held_and_one_under_it_loses_nothing", LATE),
    ("network", "limits::a_limit_of_bytes_is_held", LATE),
    ("network", "limits::every_change_acts_at_once_on_a_source_that_is_flooding", LATE),
    ("network", "budget::", LATE),
    ("network", "throttles::", LATE),
    ("network", "services::a_flood_spread_over_a_prefix_is_held_by_its_parent", LATE),
];

/// Why tests with very many packets are left to the host: the same steps are taken by others.
const MINUTES: &str = "hundreds of thousands of packets take minutes under emulation";
/// Why tests of words are left to the host: other tests use the same commands.
const WORDS: &str = "what these commands print depends on no kernel";
/// Why a rate over real time cannot be measured.
const LATE: &str = "an emulated machine offers less than these limits, and late by more than the tolerance";

/// Begins the part of a program's output in the report.
pub(super) const BEGIN: &str = "== begin ";
/// Ends it, followed by the program's name and exit status.
pub(super) const END: &str = "== end ";

/// What the guest runs on this kernel: a shell script.
pub(super) fn job(kernel: Name) -> String {
    let mut script = String::from("#!/bin/sh\nfailed=0\n");
    if kernel == Name::Old {
        step(&mut script, "refusal", "ratelimit attach eth0");
    } else {
        for program in PROGRAMS {
            let mut command = format!("/tests/{program} --test-threads=2 --show-output");
            for (_, test, _) in EXCLUDED.iter().filter(|(of, ..)| *of == program) {
                command += " --skip ";
                command += test;
            }
            if program == CARDS {
                command += " --ignored";
            }
            step(&mut script, program, &command);
        }
    }
    script + "exit $failed\n"
}

fn step(script: &mut String, name: &str, command: &str) {
    *script += &format!("echo '{BEGIN}{name}'\n{command}\nrc=$?\n[ $rc = 0 ] || failed=1\necho \"{END}{name} $rc\"\n");
}

/// Checks that the tests to leave out are there: a name that matches nothing would leave nothing out.
pub(super) fn check(programs: &[(PathBuf, PathBuf)]) -> Result<()> {
    for (program, test, _) in EXCLUDED {
        let found = programs.iter().find(|(_, place)| place.ends_with(program));
        let (path, _) = found.with_context(|| format!("no test program {program}"))?;
        let tests = output(Command::new(path).arg("--list"))?;
        let is_meant =
            |line: &str| if test.ends_with(':') { line.starts_with(test) } else { line == format!("{test}: test") };
        // Whatever contains the name would be left out.
        let mut found = tests.lines().filter(|line| line.contains(test)).peekable();
        ensure!(found.peek().is_some(), "{program} has no test {test} to leave out");
        ensure!(found.all(is_meant), "{program} has other tests whose names contain {test}");
    }
    Ok(())
}

/// The tests that are left out, for people to read.
pub(super) fn excluded() -> impl Iterator<Item = String> {
    EXCLUDED.iter().map(|(program, test, reason)| format!("{program}: {test}: {reason}"))
}
