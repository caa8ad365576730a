//! Reloads of the configuration file.

use std::time::{SystemTime, UNIX_EPOCH};

use super::super::page::Family;

/// The reloads so far.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::controller::metrics) struct Reloads {
    /// The number of reloads that applied the file.
    successes: u64,
    /// The number of failed reloads.
    failures: u64,
    /// When the file was last applied.
    last: Option<SystemTime>,
    is_failed: bool,
}

impl Reloads {
    /// Records that the file was applied at the start.
    pub(in crate::controller::metrics) fn begin(&mut self) {
        self.last = Some(SystemTime::now());
    }

    /// Records that the file was read again, and whether it was applied.
    pub(in crate::controller::metrics) fn record(&mut self, is_good: bool) {
        self.is_failed = !is_good;
        if is_good {
            self.successes += 1;
            self.last = Some(SystemTime::now());
        } else {
            self.failures += 1;
        }
    }

    pub(in crate::controller::metrics) fn families(self) -> Vec<Family> {
        let mut reloads = Family::counter(
            "ratelimit_config_reloads_total",
            "Reloads of the configuration file by result. A failed one changes nothing.",
        );
        reloads.add([("result", "success")], self.successes);
        reloads.add([("result", "failure")], self.failures);
        let mut families = vec![
            reloads,
            Family::gauge("ratelimit_config_last_reload_successful", "1 if the last reload succeeded, 0 if it failed.")
                .of(!self.is_failed),
        ];
        if let Some(last) = self.last.and_then(|last| last.duration_since(UNIX_EPOCH).ok()) {
            families.push(
                Family::gauge(
                    "ratelimit_config_last_reload_success_timestamp_seconds",
                    "When the configuration file was last applied, in seconds since 1970.",
                )
                .of(last.as_secs_f64()),
            );
        }
        families
    }
}
