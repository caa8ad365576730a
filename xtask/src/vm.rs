//! `cargo xtask vm`: runs the tests on other kernels, in virtual machines (guests).

mod choice;
mod image;
mod kernel;
mod machine;
mod report;
mod suite;

use std::{
    path::{Path, PathBuf},
    sync::Mutex,
    thread,
    time::Instant,
};

use anyhow::{Context as _, Result, ensure};

pub(crate) use self::{
    choice::Extent,
    kernel::{Kernel, Name},
};
use self::{
    image::Base,
    machine::{Ending, Machine},
    report::{Report, Row},
};
use crate::{run, setup, target};

/// Number of guests at a time. Each needs one CPU.
const GUESTS: usize = 2;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Kernels to run on [default: all]
    #[arg(value_enum, value_name = "KERNEL")]
    kernels: Vec<Name>,
    /// Run only tests whose names contain this; can be repeated
    #[arg(long = "test", value_name = "NAME")]
    tests: Vec<String>,
    /// Run the selection of tests that `cargo xtask test` runs
    #[arg(long, conflicts_with = "tests")]
    selection: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let names = if args.kernels.is_empty() { &Name::ALL } else { args.kernels.as_slice() };
    setup::run()?;
    let (kernels, missing) = available(names);
    let extent = match args.tests.as_slice() {
        [] if args.selection => Extent::Selection,
        [] => Extent::Everything,
        names => Extent::Named(names.to_vec()),
    };
    let outcome = test(&kernels, &extent, false);
    for Missing { kernel, reason } in &missing {
        println!("vm: KERNEL {} COULD NOT BE RUN: {reason}", kernel.text());
    }
    outcome?;
    ensure!(missing.is_empty(), "not all kernels were tested");
    Ok(())
}

/// A kernel that no guest can run on this machine, with the reason.
#[derive(Debug)]
pub(crate) struct Missing {
    pub(crate) kernel: Name,
    pub(crate) reason: String,
}

/// Finds or downloads these kernels and installs the tools for guests. Returns also the kernels that are not available.
pub(crate) fn available(names: &[Name]) -> (Vec<Kernel>, Vec<Missing>) {
    let cache = cache();
    let (mut kernels, mut missing) = (Vec::new(), Vec::new());
    for &kernel in names {
        let found = cache.as_ref().map_err(|error| format!("{error:#}"));
        match found.and_then(|cache| Kernel::get(kernel, cache).map_err(|error| format!("{error:#}"))) {
            Ok(kernel) => kernels.push(kernel),
            Err(reason) => missing.push(Missing { kernel, reason }),
        }
    }
    (kernels, missing)
}

/// Runs tests in one guest per kernel, and prints the results as a table. Patient guests only take the CPU time that others
/// leave.
///
/// # Errors
///
/// Fails if a test fails, or a guest does not run to its end.
pub(crate) fn test(kernels: &[Kernel], extent: &Extent, is_patient: bool) -> Result<()> {
    if kernels.is_empty() {
        return Ok(());
    }
    let programs = programs()?;
    suite::check(&programs)?;
    let chosen = suite::chosen(&programs, extent)?;
    let base = Base::build(&target::folder("vm")?, &programs, &target::workspace().join("tests/data"))?;
    match extent {
        Extent::Everything => suite::excluded().for_each(|test| println!("vm: left out: {test}")),
        Extent::Selection => println!("vm: a selection of the tests; `cargo xtask vm` runs more"),
        Extent::Named(names) => println!("vm: only tests with these names: {}", names.join(", ")),
    }
    let queue = Mutex::new(kernels.iter());
    let rows = Mutex::new(Vec::new());
    let next = || queue.lock().ok().and_then(|mut kernels| kernels.next());
    thread::scope(|scope| {
        for _ in 0..GUESTS {
            scope.spawn(|| {
                while let Some(kernel) = next() {
                    let row = examine(kernel, &suite::job(kernel.name, extent, &chosen), &chosen, &base, is_patient);
                    rows.lock().map(|mut rows| rows.push(row)).unwrap_or_default();
                }
            });
        }
    });
    let mut rows = rows.into_inner().ok().context("a guest's thread panicked")?;
    rows.sort_by_key(|row| kernels.iter().position(|kernel| kernel.name == row.kernel));
    println!(
        "\n{}\n(for each program: instructions in the kernel, instructions verified, time to load under emulation)",
        report::table(&rows)
    );
    let bad: Vec<_> = rows.iter().filter(|row| row.status != PASSED).map(|row| row.kernel.text()).collect();
    ensure!(bad.is_empty() && rows.len() == kernels.len(), "tests failed on {}", bad.join(", "));
    Ok(())
}

/// Status of a guest whose tests all passed.
const PASSED: &str = "passed";

/// Runs the guest of one kernel and returns its row of the table.
fn examine(kernel: &Kernel, job: &str, programs: &[&'static str], base: &Base, is_patient: bool) -> Row {
    let release = kernel.release.clone();
    let mut row = Row { kernel: kernel.name, release, status: "NOT RUN", report: Report::default(), seconds: 0 };
    if let Err(error) = try_examine(&mut row, kernel, job, programs, base, is_patient) {
        println!("vm: {} COULD NOT BE RUN: {error:#}", kernel.release);
    }
    row
}

/// Runs the guest and fills `row`, also if a step fails.
fn try_examine(
    row: &mut Row,
    kernel: &Kernel,
    job: &str,
    programs: &[&'static str],
    base: &Base,
    is_patient: bool,
) -> Result<()> {
    let initramfs = base.with(kernel, job)?;
    let machine = Machine::new(kernel, &initramfs, is_patient);
    println!("vm: {} starts", kernel.release);
    let begin = Instant::now();
    let mut ending = machine.run()?;
    if let Ending::Died(why) = &ending {
        println!("vm: {} DIED AND STARTS AGAIN: {why}", kernel.release);
        ending = machine.run()?;
    }
    row.seconds = begin.elapsed().as_secs();
    match ending {
        Ending::Off(text) => {
            row.report = Report::read(row.kernel, programs, &text);
            row.status = if row.report.is_good() { PASSED } else { "FAILED" };
            for failure in &row.report.failures {
                println!("vm: {}: {failure}", kernel.release);
            }
        }
        Ending::Died(why) => {
            row.status = "DIED";
            println!("vm: {} DIED AGAIN: {why}", kernel.release);
        }
        Ending::Hung => {
            row.status = "HUNG";
            println!("vm: {} HUNG and was stopped; see {}", kernel.release, machine.report.display());
        }
    }
    println!("vm: {} {} after {} s", kernel.release, row.status, row.seconds);
    Ok(())
}

/// Installs the tools for guests, and returns the folder of the kernels.
fn cache() -> Result<PathBuf> {
    ensure!(cfg!(target_arch = "x86_64"), "guests run on x86-64 only: there are no kernels for others");
    setup::virtual_machines()?;
    target::folder("kernels")
}

/// Builds the product and the test programs. Returns each with its path in the guest.
fn programs() -> Result<Vec<(PathBuf, PathBuf)>> {
    let mut words = vec!["build", "--workspace", "--bin", "ratelimit"];
    words.extend(suite::PROGRAMS.iter().flat_map(|name| ["--test", name]));
    let mut programs = Vec::new();
    for built in run::executables(&words)? {
        let [Some(name), Some(path)] = [built["target"]["name"].as_str(), built["executable"].as_str()] else {
            continue;
        };
        let folder = match name {
            "ratelimit" => "/usr/sbin",
            _ if suite::PROGRAMS.contains(&name) => "/tests",
            // Cargo also builds the programs beside the tests, which guests have no room for.
            _ => continue,
        };
        programs.push((PathBuf::from(path), Path::new(folder).join(name)));
    }
    for name in suite::PROGRAMS.iter().chain(&["ratelimit"]) {
        ensure!(programs.iter().any(|(_, place)| place.ends_with(name)), "cargo has not built {name}");
    }
    Ok(programs)
}
