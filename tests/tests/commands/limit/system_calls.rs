//! The number of system calls of a command that changes one rule.

use std::{fs, process::Command};

use ratelimit_tests::{Ratelimit, Sandbox};

/// The most system calls of one change, with those that start and end the process.
const MOST: usize = 200;

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
