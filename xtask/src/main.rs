//! The chores of the project, one file each.

mod dist;
mod graph;
mod lint;
mod other;
mod programs;
mod run;
mod setup;
mod size;
mod target;
mod test;
mod vm;

use std::process::ExitCode;

use clap::Parser;

/// The chores of the ratelimit project.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Task {
    /// Install the missing tools for building and testing
    Setup,
    /// Build the product and show a limit on real traffic, in separate namespaces (as root)
    Demo,
    /// Build the product and show three hosts that share one limit by a real server (a minute without the build, as root)
    FleetDemo,
    /// Build everything and run all tests on this machine (as root)
    Test(test::Args),
    /// Run the tests on other kernels, in virtual machines
    Vm(vm::Args),
    /// Measure time per packet and throughput, beside other limiters (half an hour, as root)
    Bench(programs::bench::Args),
    /// Play the attacks of the tests and show what got through and who was hurt (two minutes, as root)
    Attacks {
        /// Write the table of docs/floods.md
        #[arg(long, conflicts_with = "names")]
        record: bool,
        /// Names of attacks; without any, all are played
        names: Vec<String>,
    },
    /// Let each command fail or die at every system call that changes something (an hour, as root)
    Crash {
        /// Only commands that contain this text, such as "deny add"
        command: Option<String>,
    },
    /// Break the engine of a fleet in each way, and print what hosts admit (9 minutes, as root)
    Faults {
        /// Have hostile callers ask the server for requests and the daemon instead (3 minutes)
        #[arg(long)]
        requests: bool,
    },
    /// Kill processes at random moments under a flood, and count what passes (six minutes, as root)
    Kills {
        /// Write the table of docs/operations.md
        #[arg(long)]
        record: bool,
    },
    /// Run a daemon under a mixed load, with changes all the time, and watch what grows (half an hour, as root)
    Soak {
        /// Minutes of the run
        #[arg(default_value_t = 30)]
        minutes: u64,
    },
    /// Compare the parser with another one on millions of random frames (as root)
    Fuzz(programs::fuzz::Args),
    /// Run the tests with CrowdSec and Chromium, which it downloads (two minutes, as root)
    Integrations,
    /// Build the packages of a release: Debian, RPM, an archive and an image for containers (ten minutes)
    Dist(dist::Args),
    /// Check the documents, the structure, the format, the lints (kernel side too) and the documentation of the code
    Lint(lint::Args),
    /// Build the kernel side and print how many instructions each object has
    Size(size::Args),
    /// Find circles of imports between the modules of a crate
    Structure,
}

fn main() -> ExitCode {
    let outcome = match Task::parse() {
        Task::Setup => setup::for_tests().and_then(|()| setup::unpacked::for_tests()),
        Task::Demo => programs::demo::run(),
        Task::FleetDemo => programs::crash::fleet_demo(),
        Task::Test(args) => test::run(&args),
        Task::Vm(args) => vm::run(&args),
        Task::Bench(args) => programs::bench::run(&args),
        Task::Attacks { record: true, .. } => programs::release::run("attacks", &["--record"]),
        Task::Attacks { names, .. } => {
            programs::release::run("attacks", &names.iter().map(String::as_str).collect::<Vec<_>>())
        }
        Task::Crash { command } => programs::crash::system_calls(command.as_deref()),
        Task::Faults { requests: true } => programs::crash::requests(),
        Task::Faults { requests: false } => programs::crash::engine(),
        Task::Kills { record } => programs::crash::kills(record),
        Task::Soak { minutes } => programs::crash::soak(minutes),
        Task::Fuzz(args) => programs::fuzz::run(&args),
        Task::Integrations => programs::integrations::run(),
        Task::Dist(args) => dist::run(&args),
        Task::Lint(args) => lint::run(&args, &accepts),
        Task::Size(args) => size::run(&args),
        Task::Structure => graph::run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Parses words behind `cargo xtask`.
fn accepts(words: &[String]) -> Result<(), String> {
    let words = std::iter::once("cargo xtask").chain(words.iter().map(String::as_str));
    match Task::try_parse_from(words) {
        Err(error) if error.use_stderr() => Err(first_line(&error.to_string())),
        _ => Ok(()),
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::accepts;

    #[test]
    fn only_commands_that_exist_are_accepted() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for line in [
            "setup",
            "test NAME",
            "test NAME --nocapture",
            "test --guests",
            "lint --documents",
            "bench --quick --users",
            "fuzz 1000",
            "fuzz --check",
            "--help",
        ] {
            assert_eq!(accepts(&words(line)), Ok(()), "{line}");
        }
        assert!(accepts(&words("test --guests NAME")).is_err(), "guests run a selection");
        assert!(accepts(&words("bench --quick --record")).is_err(), "rough figures are not recorded");
        assert_eq!(accepts(&words("tset")), Err("unrecognized subcommand 'tset'".to_owned()));
    }
}
