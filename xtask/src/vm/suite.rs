//! What guests run: the programs, and the tests that mean nothing under emulation.

use std::{path::PathBuf, process::Command};

use anyhow::{Context as _, Result, ensure};

use super::{kernel::Name, output};

/// The test programs, in the order in which they run.
pub(super) const PROGRAMS: [&str; 5] = ["bytecode", "commands", "sandbox", "network", CARDS];

/// The one whose tests are all ignored, because a host has no two network cards to spare.
const CARDS: &str = "nic";

/// Tests that are left out, with the reason; a name that ends in colons is a file of tests, one that ends in an underscore the beginning of some.
const EXCLUDED: [(&str, &str, &[&str]); 13] = [
    (
        "bytecode",
        "no kernel plays a part in it",
        &["differential::the_host_build_says_of_every_frame_what_etherparse_says"],
    ),
    (
        "bytecode",
        "very many packets take minutes under emulation, and other tests take the same steps",
        &[
            "algorithms::costs::",
            "algorithms::elastic::",
            "algorithms::fronts::",
            "algorithms::offenders::",
            "algorithms::races::",
            "algorithms::schedules::",
            "algorithms::shadow::in_",
            "algorithms::soft::",
            "algorithms::switches::",
            "bypass::every_sound_wrapping_passes_from_other_sources",
            "bypass::no_wrapping_gets_past_the_rule_of_a_source",
            "captures::",
            "differential::the_bytecode_and_the_host_build_say_of_every_frame_what_etherparse_says",
            "front::collisions::on_two_cpus_one_source_gets_no_more_than_a_burst_of_few_packets",
            "front::crowd::",
            "front::evictions_and_changes_elsewhere_change_no_verdict",
            "front::notes::a_new_rule_acts_on_a_source_that_passes_by_its_cell",
            "front::notes::no_note_outlives_the_rule_that_it_comes_from",
            "front::offenders::of_more_offenders_than_notes_all_are_dropped_and_few_lose_their_note",
            "front::rhythms::",
            "front::samples::a_busy_source_within_its_limit_is_listed_with_about_what_it_sent",
            "moving::",
            "parents::a_parent_pays_for_nothing_that_the_next_one_refuses",
            "parents::every_verdict_is_the_models_and_a_refusal_spends_nothing",
            "parse::where_the_malformed_passes_",
            "precedence::",
            "precision::",
            "race::by_the_kernels_clock_the_bound_holds_too",
            "race::of_two_limits_neither_is_spent_by_the_refusals_of_the_other",
            "redirects::",
            "replies::budget::a_flood_gets_the_burst_and_then_the_rate",
            "replies::generated::",
            "replies::never::",
            "schedules::every_verdict_is_the_models_and_every_bound_holds",
            "services::a_service_keeps_its_class_while_room_is_made_for_its_first_rule",
            "services::more_services_than_classes_are_refused_and_those_without_rules_are_used_again",
            "strangers::a_flood_from_everywhere_gets_what_strangers_may_send_and_nobody_in_it_becomes_a_regular",
        ],
    ),
    (
        "commands",
        "what these commands print depends on no kernel",
        &["algorithms::", "asking::", "bounds::", "listing::", "rules::", "sequences::", "services::", "ssh::"],
    ),
    ("commands", "guests have no Prometheus", &["prometheus::"]),
    (
        "commands",
        "guests have no other version",
        &["privileges::what_another_version_has_left_is_for_root_to_take_over"],
    ),
    (
        "commands",
        "every attach verifies the program, which takes seconds under emulation, and other tests take the same steps",
        &[
            "attaching::attach_without_a_rate_only_observes_and_says_so",
            "attaching::detaching_the_last_interface_keeps_the_rules",
            "attaching::names_with_dots_and_interfaces_that_vanish",
            "attaching::rules_that_were_kept_are_mentioned",
            "attaching::settings_of_a_running_instance_are_not_changed_silently",
            "confirm::",
            "costs::costs_that_cannot_be_are_refused_and_those_that_are_not_there_are_a_negative_answer",
            "costs::packets_count_as_what_was_set_from_the_next_one_on",
            "daemon::a_session_that_kept_rules_deny_is_named_and_they_stay",
            "daemon::what_is_saved_is_good_and_gives_the_same_again",
            "daemon::what_rules_do_not_ask_for_stays_when_they_go",
            "errors::another_mode_than_the_running_one_is_not_ignored",
            "errors::several_interfaces_are_taken_together_or_not_at_all",
            "excess::a_limit_in_shadow_drops_nothing_and_counts_what_it_would_have",
            "excess::answers_are_spoken_of_once_a_limit_asks_for_them",
            "events::a_flood_of_a_service_that_is_billed_as_another_goes_on_as_long_as_it_does",
            "events::what_happens_while_the_maps_cannot_be_read_is_told_afterwards",
            "events::who_has_become_quiet_is_told_in_words_and_told_of_again_when_refused_again",
            "events::who_is_throttled_and_banned_is_told_once_and_when_that_ends",
            "features::a_second_instance_is_left_alone",
            "features::the_first_rule_that_needs_a_stage_switches_it_on_and_the_last_one_off",
            "shares::policies_are_told_with_their_rules_and_the_sources_that_they_judge",
            "gauges::crowded_cells_are_counted",
            "gauges::the_clock_of_each_limit_is_told",
            "metrics::",
            "settings::a_default_that_another_takes_the_place_of_is_named",
            "settings::a_rule_that_changes_the_program_keeps_its_settings_and_its_seed",
            "settings::bans_of_sources_wider_than_32_bits_are_refused",
            "settings::sizes_of_a_running_instance_can_change_but_not_whether_there_are_cells",
            "settings::what_a_running_instance_is_told_acts_and_stays",
            "settings::what_cannot_be_is_refused",
            "shadow::in_shadow_every_reason_is_counted_and_no_source_is_dropped",
        ],
    ),
    (
        "commands",
        "guests have no nftables and no ifb, and what else is looked at there depends on no kernel",
        &[
            "doctor::interfaces::a_driver_without_native_xdp_is_known_before_the_attach",
            "doctor::surroundings::",
            "doctor::tables::",
            "doctor::traffic::",
            "doctor::where_all_is_well_every_check_is_a_line",
        ],
    ),
    ("commands", "a million rules take minutes under emulation", &["many::what_has_no_room_changes_nothing"]),
    ("commands", "guests have no systemd, and what it is told depends on no kernel", &["manager::", "service::"]),
    (
        "commands",
        "guests have no setpriv, and a million sources take minutes under emulation",
        &["footprint::", "privileges::"],
    ),
    (
        "sandbox",
        "an emulated processor stands still while another fills its ring (0.3 % lost on 6.1)",
        &["floods_in_parallel_lose_nothing"],
    ),
    (
        "network",
        "an emulated machine offers less than these limits, and late by more than the tolerance",
        &[
            "bans::",
            "budget::",
            "limits::a_limit_of_bytes_is_held",
            "limits::a_source_over_its_limit_is_held_and_one_under_it_loses_nothing",
            "limits::every_change_acts_at_once_on_a_source_that_is_flooding",
            "services::a_flood_spread_over_a_prefix_is_held_by_its_parent",
            "shadow::",
            "survival::a_limit_of_strangers_holds_the_flood_and_spares_the_established",
            "throttles::",
        ],
    ),
    (
        "network",
        "every load takes seconds under emulation, and resizing::cells_move_with_what_their_sources_owe loads as often as must be",
        &[
            "interrupted::",
            "reload::",
            "replies::who_wants_to_connect_is_refused_and_who_sends_is_told",
            "survival::beside_a_flood_from_everywhere_the_established_lose_nothing",
            "limits::an_upgrade_in_place_lets_nothing_through",
            "resizing::a_change_of_sizes_lets_nothing_through",
            "resizing::every_bucket_moves_with_what_it_owes_and_has_counted",
            "versions::",
        ],
    ),
];

/// The tests that are left out, each with its program and the reason.
fn each() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    EXCLUDED.iter().flat_map(|&(program, reason, tests)| tests.iter().map(move |&test| (program, test, reason)))
}

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
            for (_, test, _) in each().filter(|(of, ..)| *of == program) {
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
    for (program, test, _) in each() {
        let found = programs.iter().find(|(_, place)| place.ends_with(program));
        let (path, _) = found.with_context(|| format!("no test program {program}"))?;
        let tests = output(Command::new(path).arg("--list"))?;
        let is_meant = |line: &str| {
            if test.ends_with([':', '_']) { line.starts_with(test) } else { line == format!("{test}: test") }
        };
        // Whatever contains the name would be left out.
        let mut found = tests.lines().filter(|line| line.contains(test)).peekable();
        ensure!(found.peek().is_some(), "{program} has no test {test} to leave out");
        ensure!(found.all(is_meant), "{program} has other tests whose names contain {test}");
    }
    Ok(())
}

/// The tests that are left out, for people to read.
pub(super) fn excluded() -> impl Iterator<Item = String> {
    each().map(|(program, test, reason)| format!("{program}: {test}: {reason}"))
}
