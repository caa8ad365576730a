//! What the server knows of its fleet.

use std::{
    fmt::Write as _,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Instant,
};

use ratelimit_fleet::engine::Engine;
use ratelimit_limiter::Limiter;
use rustix::rand::{GetRandomFlags, getrandom};
use tokio::sync::watch;

/// The engine, while it answers.
pub(super) type Link = watch::Receiver<Option<Engine>>;

/// What the server knows of its fleet. Without a fleet, it knows nothing.
#[derive(Debug, Default)]
pub(super) struct InFleet {
    /// Whether a fleet was joined, whether limits are shared in it, and whether its engine answers.
    is_member: AtomicBool,
    is_sharing: AtomicBool,
    is_up: AtomicBool,
    /// How all servers name clients.
    seed: Mutex<Option<u128>>,
    reports: AtomicU64,
    failures: AtomicU64,
    /// Rules that differ from those of other servers.
    differences: AtomicUsize,
    /// None without rules of callers.
    rules: Mutex<Option<SharedRules>>,
    /// When the rules of callers in the engine could be read last, or the server began.
    rules_read: Mutex<Option<Instant>>,
}

/// Rules of callers that all servers of a fleet share, on this server.
#[derive(Debug, Clone, Copy)]
pub(super) struct SharedRules {
    /// The version of the last change that is in force.
    pub(super) version: u64,
    /// Rules of the engine that are not in force.
    pub(super) refused: u64,
    /// Whether the copy cannot be written.
    pub(super) is_uncopied: bool,
}

impl InFleet {
    /// Returns whether limits should be shared and are not.
    pub(super) fn is_alone(&self) -> bool {
        self.is_sharing.load(Ordering::Relaxed) && !self.is_up.load(Ordering::Relaxed)
    }

    /// Notes that a fleet was joined, and whether limits are shared in it.
    pub(super) fn join(&self, is_sharing: bool) {
        self.is_member.store(true, Ordering::Relaxed);
        self.is_sharing.store(is_sharing, Ordering::Relaxed);
    }

    pub(super) fn set_up(&self, is_up: bool) {
        self.is_up.store(is_up, Ordering::Relaxed);
    }

    pub(super) fn seed(&self) -> Option<u128> {
        *self.seed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the seed, or else a random number that others cannot guess.
    pub(super) fn seed_or_random(&self) -> u128 {
        self.seed().unwrap_or_else(|| {
            let mut bytes = [0; 16];
            let _ = getrandom(&mut bytes, GetRandomFlags::empty());
            u128::from_ne_bytes(bytes)
        })
    }

    pub(super) fn set_seed(&self, seed: u128) {
        *self.seed.lock().unwrap_or_else(PoisonError::into_inner) = Some(seed);
    }

    /// Counts reports with an answer, and a call without one.
    pub(super) fn count(&self, answered: usize, has_failed: bool) {
        self.reports.fetch_add(answered as u64, Ordering::Relaxed);
        self.failures.fetch_add(u64::from(has_failed), Ordering::Relaxed);
    }

    /// Shows which rules of callers are in force.
    pub(super) fn show_rules(&self, rules: SharedRules) {
        *self.rules.lock().unwrap_or_else(PoisonError::into_inner) = Some(rules);
        self.rules_read.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(Instant::now);
    }

    /// Notes that the rules of callers in the engine could be read now.
    pub(super) fn read_rules(&self) {
        *self.rules_read.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Shows how many rules differ from those of other servers.
    pub(super) fn show_differences(&self, count: usize) {
        self.differences.store(count, Ordering::Relaxed);
    }

    /// Adds its metrics.
    pub(super) fn write(&self, page: &mut String, limiter: &Limiter) {
        if !self.is_member.load(Ordering::Relaxed) {
            return;
        }
        let rules = *self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        let of_rules = rules.map(|SharedRules { version, refused, is_uncopied }| {
            let uncopied = "Whether the copy of the rules of callers cannot be written.";
            [
                ("rules_version", "gauge", "Version of the rules of callers that are in force.", version),
                ("rules_refused", "gauge", "Rules of callers in the engine that this server refuses.", refused),
                ("rules_copy_failed", "gauge", uncopied, u64::from(is_uncopied)),
            ]
        });
        let read = *self.rules_read.lock().unwrap_or_else(PoisonError::into_inner);
        let age = read.map(|read| {
            let help = "Seconds since the rules of callers in the engine could be read.";
            ("rules_age_seconds", "gauge", help, read.elapsed().as_secs())
        });
        let (shared, lost) = limiter.shares().map_or((0, 0), |shares| (shares.len() as u64, shares.lost()));
        for (name, kind, help, value) in [
            (
                "fleet_up",
                "gauge",
                "Whether the engine of the fleet answers.",
                u64::from(self.is_up.load(Ordering::Relaxed)),
            ),
            ("shared_clients", "gauge", "Clients whose limits are shared.", shared),
            ("unshared_clients_total", "counter", "Busy clients that were shared and had to go for others.", lost),
            (
                "fleet_reports_total",
                "counter",
                "Reports that the engine has answered.",
                self.reports.load(Ordering::Relaxed),
            ),
            (
                "fleet_failures_total",
                "counter",
                "Calls that the engine has not answered.",
                self.failures.load(Ordering::Relaxed),
            ),
            (
                "differing_rules",
                "gauge",
                "Rules that another server has with other limits.",
                self.differences.load(Ordering::Relaxed) as u64,
            ),
        ]
        .into_iter()
        .chain(of_rules.into_iter().flatten())
        .chain(age)
        {
            let _ = writeln!(page, "# HELP ratelimit_check_{name} {help}");
            let _ = writeln!(page, "# TYPE ratelimit_check_{name} {kind}");
            let _ = writeln!(page, "ratelimit_check_{name} {value}");
        }
    }
}
