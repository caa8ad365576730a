//! How the file fared.

use std::time::{SystemTime, UNIX_EPOCH};

use super::Family;

/// What became of the file so far.
#[derive(Debug, Clone, Copy, Default)]
pub(in super::super) struct Reloads {
    /// Times that it was read again and put in force.
    successes: u64,
    /// Times that it was not.
    failures: u64,
    /// When it was put in force last.
    last: Option<SystemTime>,
    is_failed: bool,
}

impl Reloads {
    /// Notes that the file was put in force at the start.
    pub(in super::super) fn begin(&mut self) {
        self.last = Some(SystemTime::now());
    }

    /// Notes that it was read again, and whether it is in force.
    pub(in super::super) fn note(&mut self, is_good: bool) {
        self.is_failed = !is_good;
        if is_good {
            self.successes += 1;
            self.last = Some(SystemTime::now());
        } else {
            self.failures += 1;
        }
    }

    pub(in super::super) fn families(self) -> Vec<Family> {
        let mut reloads = Family::counter(
            "ratelimit_config_reloads_total",
            "Times that the file was read again; after a failure everything is as it was.",
        );
        reloads.add([("result", "success")], self.successes);
        reloads.add([("result", "failure")], self.failures);
        let mut families = vec![
            reloads,
            Family::gauge("ratelimit_config_last_reload_successful", "0 while the file is not what is in force.")
                .of(!self.is_failed),
        ];
        if let Some(last) = self.last.and_then(|last| last.duration_since(UNIX_EPOCH).ok()) {
            families.push(
                Family::gauge(
                    "ratelimit_config_last_reload_success_timestamp_seconds",
                    "When the file was put in force last, in seconds since 1970.",
                )
                .of(last.as_secs_f64()),
            );
        }
        families
    }
}
