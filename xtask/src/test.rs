//! `cargo xtask test`: builds everything and runs all tests, on this machine and then on other kernels.

use std::{
    env,
    process::Command,
    thread::{self, available_parallelism},
};

use anyhow::{Context as _, Result, anyhow, ensure};

use crate::{
    other, run,
    setup::{self, unpacked},
    size,
    vm::{self, Extent, Missing, Name},
};

/// The kernels of the guests: the oldest supported one that the mirror has, and a later long-term one.
const KERNELS: [Name; 2] = [Name::V6_1, Name::V6_12];

/// Environment variable for the number of tests that run at a time.
const THREADS: &str = "RUST_TEST_THREADS";
/// Most tests wait: for commands, or for the kernel to free maps. Tests that need all CPUs take a lock.
const TESTS_PER_CPU: usize = 4;
/// The tests that measure rates of packets, and how many of them run at a time.
const NETWORK: &str = "network";
const NETWORK_TESTS_PER_CPU: usize = 2;
/// The tests of fleets, which mostly wait. Guests run beside them.
const FLEET: &str = "fleet";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only tests whose name contains this, and only on this machine; further words go to the test programs
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    filter: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    run::require_root("test")?;
    setup::for_tests()?;
    unpacked::for_tests()?;
    // Tests run the binary of the product and that of another version. `cargo test` builds neither. For the workspace,
    // cargo chooses the features of `cargo test`, so that no library is built twice.
    run::run(run::cargo().args(["build", "--locked", "--workspace", "--bin", "ratelimit"]))?;
    size::print()?;
    other::build()?;
    let others: Vec<_> = programs()?.into_iter().filter(|name| ![NETWORK, FLEET].contains(&name.as_str())).collect();
    let [network, fleet] = [NETWORK, FLEET].map(|name| options(&[name.to_owned()]));
    let first = [["--lib", "--bin", "xtask", "--bin", "bench"].map(str::to_owned).to_vec(), options(&others)].concat();
    run::run(cargo_test(&[&first[..], &network, &fleet].concat()).arg("--no-run"))?;
    run::run(&mut tests(&first, TESTS_PER_CPU, &args.filter))?;
    let mut fleet = tests(&fleet, TESTS_PER_CPU, &args.filter);
    let guests =
        if args.filter.is_empty() { beside_guests(&mut fleet)? } else { run::run(&mut fleet).map(|()| None)? };
    run::run(&mut tests(&network, NETWORK_TESTS_PER_CPU, &args.filter))?;
    run::run(&mut tests(&["--doc".to_owned()], TESTS_PER_CPU, &args.filter))?;
    guests.map_or(Ok(()), |missing| check(&missing))
}

/// Runs guests and a command at a time. Guests take the CPU time that it leaves. Returns the kernels that this machine cannot
/// run.
fn beside_guests(command: &mut Command) -> Result<Option<Vec<Missing>>> {
    let (kernels, missing) = vm::available(&KERNELS);
    let (guests, outcome) = thread::scope(|scope| {
        let guests = scope.spawn(|| vm::test(&kernels, &Extent::Selection, true));
        let outcome = run::run(command);
        (guests.join(), outcome)
    });
    let guests = guests.map_err(|_| anyhow!("the thread of the guests panicked")).flatten();
    if let (Err(error), Err(_)) = (&guests, &outcome) {
        eprintln!("xtask: {error:#}");
    }
    outcome.and(guests).map(|()| Some(missing))
}

/// Tells which kernels were not tested. That is a failure only with CI=true.
fn check(missing: &[Missing]) -> Result<()> {
    let strict = env::var_os("CI").is_some_and(|value| value == "true");
    if !missing.is_empty() {
        eprintln!("{}", notice(missing, strict));
    }
    ensure!(missing.is_empty() || !strict, "not all kernels were tested, and CI=true is set");
    Ok(())
}

/// Returns the command that runs these test programs, with so many tests for each CPU at a time.
fn tests(programs: &[String], per_cpu: usize, filter: &[String]) -> Command {
    let mut tests = cargo_test(programs);
    tests.arg("--").args(filter);
    if env::var_os(THREADS).is_none() {
        tests.env(THREADS, (per_cpu * available_parallelism().map_or(1, usize::from)).to_string());
    }
    tests
}

fn cargo_test(programs: &[String]) -> Command {
    let mut cargo = run::cargo();
    cargo.args(["test", "--locked", "--workspace"]).args(programs);
    cargo
}

/// Returns the options of cargo for these test programs.
fn options(names: &[String]) -> Vec<String> {
    names.iter().flat_map(|name| ["--test".to_owned(), name.clone()]).collect()
}

/// Returns the names of all test programs.
fn programs() -> Result<Vec<String>> {
    let text = run::output(run::cargo().args(["metadata", "--locked", "--no-deps", "--format-version", "1"]))?;
    let metadata: serde_json::Value = serde_json::from_str(&text).context("cargo wrote no JSON")?;
    let list = |of: &serde_json::Value, what: &str| of[what].as_array().cloned().unwrap_or_default();
    let targets = list(&metadata, "packages").into_iter().flat_map(|package| list(&package, "targets"));
    let is_test = |target: &serde_json::Value| list(target, "kind").iter().any(|kind| kind == "test");
    let names: Vec<String> =
        targets.filter(is_test).filter_map(|target| Some(target["name"].as_str()?.to_owned())).collect();
    for known in [NETWORK, FLEET] {
        ensure!(names.iter().any(|name| name == known), "there is no test program {known}");
    }
    Ok(names)
}

/// Returns a visible notice of the kernels that were not tested, with the reasons.
fn notice(missing: &[Missing], strict: bool) -> String {
    let names: Vec<_> = missing.iter().map(|missing| missing.kernel.text()).collect();
    let mut text = format!("NOT TESTED: the guests with kernel {}\n", names.join(" and "));
    for Missing { kernel, reason } in missing {
        text += &format!("\n{}: {reason}", kernel.text());
    }
    text += if strict {
        "\n\nThis is a FAILURE, because the environment has CI=true."
    } else {
        "\n\nThis alone is no failure. With CI=true in the environment it would be one."
    };
    let rule = "#".repeat(100);
    let lines: Vec<_> = text.lines().map(|line| format!("##  {line}")).collect();
    format!("\n{rule}\n{}\n{rule}", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::{KERNELS, Missing, notice};

    #[test]
    fn the_notice_names_each_kernel_and_its_reason() {
        let missing = KERNELS.map(|kernel| Missing { kernel, reason: "no network\nat all".to_owned() });
        for (strict, verdict) in [(false, "With CI=true in the environment"), (true, "a FAILURE, because")] {
            let text = notice(&missing, strict);
            for part in ["NOT TESTED: the guests with kernel 6.1 and 6.12", "6.12: no network", verdict, "CI=true"] {
                assert!(text.contains(part), "{part}: {text}");
            }
            assert!(text.trim().lines().all(|line| line.starts_with("##")));
        }
    }
}
