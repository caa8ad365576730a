//! Progress and messages of commands that change many rules.

use std::io::{self, IsTerminal as _, Write as _};

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use ratelimit_base::text::pasted;
use ratelimit_dataplane::sys::signals;

use super::change::missing;
use crate::cli::print::{
    answer::Answer,
    output::{Output, count},
};

/// The message for a list without a usable prefix.
pub(super) const NO_ADDRESS: &str = "standard input has no address: nothing was changed";

/// The number of rules from which on a terminal shows progress.
const MANY: usize = 50_000;

/// Prints a negative answer. Text goes to standard error, because standard output is for results.
pub(super) fn nothing(output: Output, message: &str) -> Result<Answer> {
    if output.json {
        return missing(output, &[message.to_owned()], false, false);
    }
    signals::let_through(|| writeln!(io::stderr(), "ratelimit: {}", pasted::text(message)))?;
    Ok(Answer::Negative)
}

/// Returns how many lines were skipped, for the end of a line.
pub(super) fn skipped_text(lines: usize) -> String {
    if lines == 0 { String::new() } else { format!(", {} skipped", count(lines, "line")) }
}

/// Returns a progress bar, which is visible on a terminal only.
pub(super) fn bar(rules: usize) -> ProgressBar {
    if rules < MANY || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{wide_bar} {human_pos} of {human_len} rules");
    ProgressBar::new(rules as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
