//! `cargo xtask bench`: builds the product in release mode and measures the product beside other limiters.

use anyhow::Result;

use crate::{programs::release, run, setup};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Measure with little effort, everything in five minutes; the figures are rough
    #[arg(long)]
    quick: bool,
    /// Compare only the algorithms with each other, in three minutes
    #[arg(long)]
    algorithms: bool,
    /// Measure only the most expensive traffic of each feature
    #[arg(long)]
    worst: bool,
    /// Compare only admitted with configured rates, in five minutes
    #[arg(long)]
    accuracy: bool,
    /// Measure only what the users of a web server feel beside a flood, in twelve minutes
    #[arg(long)]
    users: bool,
    /// Measure only packets without a network, in every configuration
    #[arg(long)]
    packets: bool,
    /// Measure only floods from their first second on
    #[arg(long)]
    attacks: bool,
    /// Measure only the gain of a second CPU
    #[arg(long)]
    cpus: bool,
    /// Measure only slow limits beside fast ones
    #[arg(long)]
    mixed: bool,
    /// Measure only fleets: simulated ones, packets with leases, the engine and the daemon, in eight minutes; with
    /// `--record`, write that part of docs/measurements.md
    #[arg(long)]
    fleet: bool,
    /// Measure only limits for requests: decisions beside other libraries, HTTP, gRPC and memory, in four minutes; with
    /// `--record`, write that part of docs/measurements.md
    #[arg(long)]
    check: bool,
    /// Measure only the chance of new visitors beside a flood of forged packets, in six minutes; with `--record`, write
    /// that part of docs/measurements.md
    #[arg(long)]
    visitors: bool,
    /// Write docs/measurements.md with its plots, and the figures of README.md, from the quietest of three runs of
    /// everything
    #[arg(long, conflicts_with_all = ["quick", "algorithms", "worst", "packets", "mixed", "attacks", "cpus", "accuracy", "users"])]
    record: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    run::require_root("bench")?;
    if args.check {
        leave_out("HTTP", setup::unpacked::WRK.provide());
    } else {
        leave_out("other limiters", setup::limiters());
        leave_out("what users feel", setup::unpacked::NGINX.provide());
    }
    let arguments = [
        (args.quick, "--quick"),
        (args.algorithms, "--algorithms"),
        (args.worst, "--worst"),
        (args.accuracy, "--accuracy"),
        (args.users, "--users"),
        (args.packets, "--packets"),
        (args.mixed, "--mixed"),
        (args.attacks, "--attacks"),
        (args.cpus, "--cpus"),
        (args.fleet, "--fleet"),
        (args.check, "--check"),
        (args.visitors, "--visitors"),
        (args.record, "--record"),
    ];
    let arguments: Vec<_> = arguments.iter().filter(|(is_on, _)| *is_on).map(|(_, name)| *name).collect();
    // Other limiters that are libraries take long to build.
    let feature = if args.check { "peers" } else { "frames" };
    release::bench(feature, &arguments)
}

/// Says what is left out if its programs are missing.
fn leave_out(what: &str, provided: Result<()>) {
    if let Err(error) = provided {
        println!("setup: bench leaves out {what}: {}", format!("{error:#}").replace('\n', "; "));
    }
}
