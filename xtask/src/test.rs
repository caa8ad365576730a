//! `cargo xtask test`: builds everything and runs all tests, on this machine and, with `--guests`, on other kernels.

mod program;

use std::{env, thread, thread::available_parallelism};

use anyhow::{Result, anyhow, bail, ensure};

use self::program::Program;
use crate::{
    other, run,
    setup::{self, unpacked},
    vm::{self, Extent, Missing, Name},
};

/// The kernels of the guests: the oldest supported one that the mirror has, and a later long-term one.
const KERNELS: [Name; 2] = [Name::V6_1, Name::V6_12];

/// Most tests wait: for commands, or for the kernel to free maps. Tests that need all CPUs take a lock.
const TESTS_PER_CPU: usize = 4;
/// The tests that measure rates of packets, and how many of them run at a time.
const NETWORK: &str = "network";
const NETWORK_TESTS_PER_CPU: usize = 2;
/// The tests of fleets, which mostly wait. Guests run beside them.
const FLEET: &str = "fleet";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run a selection of the tests also in virtual machines with Linux 6.1 and 6.12
    #[arg(long, conflicts_with = "filter")]
    guests: bool,
    /// Only tests whose name contains this; further words go to the test programs
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    filter: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    run::require_root("test")?;
    if args.filter.is_empty() { everything(args.guests) } else { some(&args.filter) }
}

/// Runs all tests. Those that fail are listed at the end.
fn everything(with_guests: bool) -> Result<()> {
    setup::for_tests()?;
    unpacked::for_tests()?;
    let programs = build()?;
    let [network, fleet] = [NETWORK, FLEET].map(|name| programs.iter().find(|program| program.name == name));
    let (Some(network), Some(fleet)) = (network, fleet) else { bail!("there is no test program {NETWORK} or {FLEET}") };
    let mut failures = Vec::new();
    for program in programs.iter().filter(|program| ![NETWORK, FLEET].contains(&&*program.name)) {
        failures.extend(program.run(threads(TESTS_PER_CPU), &[])?);
    }
    let guests = if with_guests { Some(beside_guests(fleet, &mut failures)?) } else { None };
    if !with_guests {
        failures.extend(fleet.run(threads(TESTS_PER_CPU), &[])?);
    }
    failures.extend(network.run(threads(NETWORK_TESTS_PER_CPU), &[])?);
    failures.extend(examples(&[]).err().map(|error| format!("examples in comments: {error:#}")));
    failures.extend(packet_tool().err().map(|error| format!("the packet tool, without features: {error:#}")));
    let missing = guests.map_or(Ok(()), |missing| check(&missing));
    failures.extend(missing.err().map(|error| error.to_string()));
    end(&failures)
}

/// Runs the tests that these arguments of test programs choose, in the programs that have one.
fn some(filter: &[String]) -> Result<()> {
    let (mut has_any, mut failures) = (false, Vec::new());
    for program in build()? {
        if program.has(filter)? {
            has_any = true;
            let per_cpu = if program.name == NETWORK { NETWORK_TESTS_PER_CPU } else { TESTS_PER_CPU };
            failures.extend(program.run(threads(per_cpu), filter)?);
        }
    }
    if !has_any {
        println!("test: no program has such a test; looking for examples in comments");
        examples(filter)?;
    }
    end(&failures)
}

/// Builds all test programs, and what they run.
fn build() -> Result<Vec<Program>> {
    let programs = program::build()?;
    other::build()?;
    Ok(programs)
}

/// Runs the examples in comments.
fn examples(filter: &[String]) -> Result<()> {
    run::run(run::cargo().args(["test", "--locked", "--quiet", "--workspace", "--doc", "--"]).args(filter))
}

/// Builds the command without its features, and runs its own tests.
fn packet_tool() -> Result<()> {
    let packages = ["ratelimit-base", "ratelimit-client", "ratelimit-daemon", "ratelimit-user"];
    let packages = packages.iter().flat_map(|name| ["--package", name]);
    let mut cargo = run::cargo();
    cargo
        .args(["test", "--locked", "--quiet", "--no-fail-fast", "--no-default-features", "--lib", "--bins"])
        .args(packages);
    run::run(&mut cargo)
}

/// Lists what has failed.
fn end(failures: &[String]) -> Result<()> {
    ensure!(failures.is_empty(), "tests failed:\n  {}", failures.join("\n  "));
    Ok(())
}

/// Returns how many tests run at a time, with so many for each CPU.
fn threads(per_cpu: usize) -> usize {
    per_cpu * available_parallelism().map_or(1, usize::from)
}

/// Runs guests and a program at a time. Guests take the CPU time that it leaves. Returns the kernels that this machine cannot
/// run.
fn beside_guests(program: &Program, failures: &mut Vec<String>) -> Result<Vec<Missing>> {
    let (kernels, missing) = vm::available(&KERNELS);
    let (guests, failure) = thread::scope(|scope| {
        let guests = scope.spawn(|| vm::test(&kernels, &Extent::Selection, true));
        let failure = program.run(threads(TESTS_PER_CPU), &[]);
        (guests.join(), failure)
    });
    failures.extend(failure?);
    let guests = guests.map_err(|_| anyhow!("the thread of the guests panicked")).flatten();
    failures.extend(guests.err().map(|error| format!("guests: {error:#}")));
    Ok(missing)
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
