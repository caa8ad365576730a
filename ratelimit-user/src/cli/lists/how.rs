//! The options of the commands that set a list.

use std::time::Duration;

use ratelimit_base::text::units;
use ratelimit_daemon::limit::Rates;

/// The section of the help for options after those of the limit itself.
const OPTIONS: Option<&str> = None;

/// What happens to the sources of a list.
#[derive(Debug, clap::Args)]
pub(crate) struct How {
    /// Drop all packets of the sources [default, if no limit is given]
    #[arg(long, conflicts_with_all = ["packets", "bytes", "burst", "parents"])]
    pub(super) deny: bool,
    #[command(flatten)]
    pub(super) rates: Rates,
    /// End the list after this time: 90s, 10m, 2h, 7d
    #[arg(long = "for", value_name = "DURATION", value_parser = units::lifetime, help_heading = OPTIONS)]
    pub(super) life: Option<Duration>,
    /// Change nothing if a line cannot be used
    #[arg(long, help_heading = OPTIONS)]
    pub(super) strict: bool,
    /// Set the list even if it blocks your SSH session or loses most of its entries
    #[arg(long, help_heading = OPTIONS)]
    pub(super) force: bool,
}
