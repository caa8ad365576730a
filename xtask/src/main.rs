//! The project's chores, one file each.

mod bench;
mod demo;
mod fuzz;
mod lint;
mod other;
mod prometheus;
mod run;
mod setup;
mod test;
mod vm;

use std::process::ExitCode;

use clap::Parser;

/// The chores of the ratelimit project.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Task {
    /// Install what is missing to build and test; does nothing when all is there
    Setup,
    /// Build everything and show the main job on real traffic, in namespaces of its own (2 minutes at most, as root)
    Demo,
    /// Build everything and run all tests, here and in virtual machines with two other kernels (as root)
    Test(test::Args),
    /// Run the tests on other kernels, in virtual machines
    Vm(vm::Args),
    /// Measure what a packet costs and how many pass, beside other limiters (ten minutes at most, as root)
    Bench(bench::Args),
    /// Compare with another parser what the program makes of millions of random frames (as root)
    Fuzz(fuzz::Args),
    /// Check the format, the lints (kernel side too) and the documentation
    Lint,
}

fn main() -> ExitCode {
    let outcome = match Task::parse() {
        Task::Setup => setup::for_tests().and_then(|()| prometheus::provide()),
        Task::Demo => demo::run(),
        Task::Test(args) => test::run(&args),
        Task::Vm(args) => vm::run(&args),
        Task::Bench(args) => bench::run(&args),
        Task::Fuzz(args) => fuzz::run(&args),
        Task::Lint => lint::run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
