//! `cargo xtask vm`: the same tests on other kernels, in virtual machines that are thrown away.

mod image;
mod kernel;
mod machine;
mod report;
mod suite;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
    thread,
    time::Instant,
};

use anyhow::{Context as _, Result, bail, ensure};

use self::{
    image::Base,
    kernel::{Kernel, Name},
    machine::{Ending, Machine},
    report::{Report, Row},
};
use crate::{run, setup};

/// Guests at a time. Each is one busy thread.
const GUESTS: usize = 2;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Kernels to run on; all of them if none is named
    #[arg(value_enum, value_name = "KERNEL")]
    kernels: Vec<Name>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    ensure!(cfg!(target_arch = "x86_64"), "`cargo xtask vm` runs on x86-64 only: it has no kernels for others");
    let names = if args.kernels.is_empty() { Name::ALL.to_vec() } else { args.kernels.clone() };
    setup::run()?;
    setup::virtual_machines()?;
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("");
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from);
    let target = std::path::absolute(target).context("no working directory")?;
    let (cache, folder) = (target.join("kernels"), target.join("vm"));
    for folder in [&cache, &folder] {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }

    let base = Base::build(&folder, &programs()?, &workspace.join("tests/data"))?;
    for test in suite::excluded() {
        println!("vm: left out: {test}");
    }
    let queue = Mutex::new(names.iter().copied());
    let rows = Mutex::new(Vec::new());
    let next = || queue.lock().ok().and_then(|mut names| names.next());
    thread::scope(|scope| {
        for _ in 0..GUESTS {
            scope.spawn(|| {
                while let Some(name) = next() {
                    let row = examine(name, &cache, &base);
                    rows.lock().map(|mut rows| rows.push(row)).unwrap_or_default();
                }
            });
        }
    });
    let mut rows = rows.into_inner().ok().context("a guest's thread panicked")?;
    rows.sort_by_key(|row| names.iter().position(|name| *name == row.kernel));
    println!("\n{}\n(sizes in instructions; times are those of emulation)", report::table(&rows));
    let bad: Vec<_> = rows.iter().filter(|row| row.status != PASSED).map(|row| row.kernel.text()).collect();
    ensure!(bad.is_empty() && rows.len() == names.len(), "not all is well on {}", bad.join(", "));
    Ok(())
}

/// The one good status of a row.
const PASSED: &str = "passed";

/// Everything about one kernel, from the download to the verdict.
fn examine(kernel: Name, cache: &Path, base: &Base) -> Row {
    let mut row = Row { kernel, release: String::new(), status: "MISSING", report: Report::default(), seconds: 0 };
    if let Err(error) = try_examine(&mut row, cache, base) {
        println!("vm: KERNEL {} COULD NOT BE RUN: {error:#}", kernel.text());
    }
    row
}

/// As far as it comes, `row` says how far.
fn try_examine(row: &mut Row, cache: &Path, base: &Base) -> Result<()> {
    let kernel = Kernel::get(row.kernel, cache)?;
    row.release.clone_from(&kernel.release);
    row.status = "NOT RUN";
    let initramfs = base.with(&kernel, &suite::job(row.kernel))?;
    let machine = Machine::new(&kernel, &initramfs);
    println!("vm: {} starts", kernel.release);
    let begin = Instant::now();
    let mut ending = machine.run()?;
    if let Ending::Died(why) = &ending {
        println!("vm: {} DIED AND IS TRIED ONCE MORE: {why}", kernel.release);
        ending = machine.run()?;
    }
    row.seconds = begin.elapsed().as_secs();
    match ending {
        Ending::Off(text) => {
            row.report = Report::read(row.kernel, &text);
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

/// Builds the product and the test programs; each with its place in the guest.
fn programs() -> Result<Vec<(PathBuf, PathBuf)>> {
    let product = executables(&["build", "--package", "ratelimit-user"])?;
    let mut tests = vec!["test", "--no-run", "--package", "ratelimit-tests"];
    tests.extend(suite::PROGRAMS.iter().flat_map(|name| ["--test", name]));
    let mut programs = Vec::new();
    for (name, path) in product.into_iter().chain(executables(&tests)?) {
        let folder = if name == "ratelimit" { "/usr/sbin" } else { "/tests" };
        programs.push((path, Path::new(folder).join(name)));
    }
    for name in suite::PROGRAMS.iter().chain(&["ratelimit"]) {
        ensure!(programs.iter().any(|(_, place)| place.ends_with(name)), "cargo has not built {name}");
    }
    Ok(programs)
}

/// What cargo builds with these words: names and files.
fn executables(words: &[&str]) -> Result<Vec<(String, PathBuf)>> {
    let mut cargo = run::cargo();
    cargo.args(words).args(["--locked", "--message-format=json-render-diagnostics"]);
    let output = cargo.stderr(std::process::Stdio::inherit()).output().context("cannot run cargo")?;
    ensure!(output.status.success(), "`{}` failed ({})", run::describe(&cargo), output.status);
    let mut found = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines().filter(|line| line.starts_with('{')) {
        let message: serde_json::Value = serde_json::from_str(line).context("cargo prints something else than JSON")?;
        if let (Some(name), Some(path)) = (message["target"]["name"].as_str(), message["executable"].as_str()) {
            found.push((name.to_owned(), PathBuf::from(path)));
        }
    }
    Ok(found)
}

/// Runs a command that should succeed, and returns what it prints; if it fails, its complaints are part of the error.
fn output(command: &mut Command) -> Result<String> {
    let line = run::describe(command);
    let output = command.output().with_context(|| format!("cannot run `{line}`"))?;
    if !output.status.success() {
        bail!("`{line}` failed ({}): {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
