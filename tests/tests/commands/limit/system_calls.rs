//! System calls of a command that changes one rule, and the order of those that free the slot of a limit.

use std::{collections::HashMap, fs, process::Command};

use ratelimit_tests::{Daemon, Folder, Ratelimit, Sandbox};

/// The most system calls of one change, with those that start and end the process, that list the sessions of logind, that
/// list addresses, routes and name servers, and that record the change for `events`.
const MOST: usize = 330;

/// Parents that a command searches for an SSH session within that number. The test may run deeper.
const PARENTS: usize = 8;
/// System calls for each parent, in a build with debug assertions.
const CALLS_PER_PARENT: usize = 8;

/// Runs a command under strace. Returns the names of its system calls, and how many parents it has searched.
fn calls(ratelimit: &Ratelimit<'_>, words: &str) -> (Vec<String>, usize) {
    let traced = ratelimit.command(words);
    let trace = std::env::temp_dir().join(format!("ratelimit-calls-{}", std::process::id())).display().to_string();
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", &trace]).arg(traced.get_program()).args(traced.get_args());
    // Cargo sets folders for tests, in which the loader would search each library.
    command.env_remove("LD_LIBRARY_PATH");
    let output = ratelimit.output(&mut command);
    assert_eq!(output.status, 0, "{words}: {output:?}");
    let text = fs::read_to_string(&trace).unwrap();
    fs::remove_file(&trace).unwrap();
    // Each line has the process, then the call.
    let call = |line: &str| Some(line.split_once(' ')?.1.trim_start().split_once('(')?.0.to_owned());
    let parents = text.lines().filter(|line| line.contains("/environ\"")).count();
    (text.lines().filter_map(call).collect(), parents)
}

#[test]
fn one_change_makes_few_system_calls() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    // The first limit beside the default replaces the program.
    ratelimit.ok("limit set 198.51.100.0/24 --packets 10/s");
    for words in [
        "limit set default --packets 1000/s",
        "limit set 192.0.2.0/24 --packets 1000/s",
        "deny add 192.0.2.7",
        "limit del 192.0.2.0/24",
    ] {
        let (calls, parents) = calls(&ratelimit, words);
        let most = MOST + CALLS_PER_PARENT * parents.saturating_sub(PARENTS);
        let of_bpf = calls.iter().filter(|call| *call == "bpf").count();
        println!("{words}: {} system calls, {of_bpf} of them bpf; {parents} parents", calls.len());
        assert!((40..=most).contains(&calls.len()), "{words}: {} system calls: {calls:?}", calls.len());
    }
    ratelimit.ok("detach --all");
}

/// What a command does to reuse the slot of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// It writes the control entry, which has the generation.
    Control,
    /// It waits for a grace period.
    Wait,
    /// It writes a policy.
    Policy,
}

/// Returns each call as one line. Strace writes two if another thread makes a call meanwhile.
fn whole_calls(trace: &str) -> Vec<String> {
    let (mut begun, mut calls) = (HashMap::new(), Vec::new());
    for line in trace.lines() {
        let thread = line.split(' ').next().unwrap_or_default();
        if let Some(begin) = line.strip_suffix(" <unfinished ...>") {
            begun.insert(thread, begin);
        } else if let Some((_, end)) = line.split_once(" resumed>") {
            calls.push(begun.remove(thread).unwrap_or_default().to_owned() + end);
        } else {
            calls.push(line.to_owned());
        }
    }
    calls
}

/// Returns the steps in the output of strace.
fn steps(trace: &str) -> Vec<Step> {
    let (mut maps, mut steps) = (HashMap::new(), Vec::new());
    for call in whole_calls(trace) {
        let after = |text: &str| {
            let (_, rest) = call.split_once(text)?;
            rest.split(['"', ',', ' ', ')']).next().map(str::to_owned)
        };
        if call.contains("BPF_OBJ_GET,") {
            maps.insert(after(" = ").unwrap_or_default(), after("pathname=\"").unwrap_or_default());
        } else if let Some(closed) = after(" close(") {
            maps.remove(&closed);
        } else if call.contains("membarrier") && call.ends_with("= 0") {
            steps.push(Step::Wait);
        } else if let Some(map) = after("BPF_MAP_UPDATE_ELEM, {map_fd=").and_then(|map| maps.get(&map)) {
            let step = if map.ends_with("/CONTROL") { Some(Step::Control) } else { None };
            steps.extend(step.or(map.ends_with("/POLICIES").then_some(Step::Policy)));
        }
    }
    steps
}

#[test]
fn the_slot_of_a_limit_is_reused_only_after_a_grace_period() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    ratelimit.ok("attach eth0");
    ratelimit.ok("limit set 192.0.2.0/24 --packets 7/s");
    ratelimit.ok("limit del 192.0.2.0/24");
    // A file with several limits frees all unused slots first.
    let rule = |source: &str, rate: &str| format!("[[rule]]\nsource = \"{source}\"\npackets = \"{rate}\"\n");
    folder.write(&format!("interfaces = [\"eth0\"]\n{}{}", rule("10.0.0.1", "8/s"), rule("10.0.0.2", "9/s")));
    let traced = ratelimit.command(&format!("run -c {}", folder.file().display()));
    let trace = std::env::temp_dir().join(format!("ratelimit-steps-{}", std::process::id())).display().to_string();
    let mut command = Command::new("strace");
    command.args(["-D", "-f", "-qq", "-e", "trace=bpf,membarrier,close", "-s", "200", "-o", &trace]);
    command.arg(traced.get_program()).args(traced.get_args()).env_remove("LD_LIBRARY_PATH");
    let mut daemon = Daemon::by(&sandbox, command);
    assert!(daemon.line().contains("rules: 2 set"));
    daemon.end();
    let steps = steps(&fs::read_to_string(&trace).unwrap());
    fs::remove_file(&trace).unwrap();
    println!("{steps:?}");
    // The old slot is emptied, and the two new limits are written.
    assert_eq!(steps.iter().filter(|step| **step == Step::Policy).count(), 3, "{steps:?}");
    let first = steps.iter().position(|step| *step == Step::Policy).unwrap();
    assert_eq!(steps[first - 2..first], [Step::Control, Step::Wait], "{steps:?}");
    ratelimit.ok("detach --all");
}
