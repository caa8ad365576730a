//! Settings that an operator requests.

use crate::program::{settings::Settings, sizes};

/// Settings that an operator requests. The others stay, or have the default of a new instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestedSettings {
    /// See [`Settings::ipv6_prefix`].
    pub ipv6_prefix: Option<u32>,
    /// See [`Settings::buckets`].
    pub buckets: Option<u32>,
    /// See [`Settings::pass_malformed`].
    pub pass_malformed: Option<bool>,
    /// See [`Settings::cells`].
    pub cells: Option<u32>,
    /// See [`Settings::sample`].
    pub sample: Option<bool>,
    /// See [`Settings::admissions`].
    pub admissions: Option<u64>,
    /// See [`Settings::unknown`].
    pub unknown: Option<u64>,
    /// See [`Settings::prove_tcp`].
    pub prove_tcp: Option<bool>,
    /// See [`Settings::proofs`].
    pub proofs: Option<u64>,
    /// See [`Settings::own`].
    pub own: Option<u64>,
    /// See [`Settings::spare`].
    pub spare: Option<bool>,
    /// See [`Settings::sliding_logs`].
    pub sliding_logs: Option<u32>,
    /// See [`Settings::shadow`].
    pub shadow: Option<bool>,
    /// See [`Settings::replies`].
    pub replies: Option<u64>,
    /// See [`Settings::leases`].
    pub leases: Option<bool>,
    /// See [`Settings::divide`].
    pub divide: Option<bool>,
    /// See [`Settings::log_level`].
    pub log_level: u8,
}

impl RequestedSettings {
    /// Returns a request for exactly these settings.
    #[must_use]
    pub fn of(settings: &Settings) -> Self {
        Self {
            ipv6_prefix: Some(settings.ipv6_prefix),
            buckets: Some(settings.buckets),
            pass_malformed: Some(settings.pass_malformed),
            cells: Some(settings.cells),
            sample: Some(settings.sample),
            admissions: Some(settings.admissions),
            unknown: Some(settings.unknown),
            prove_tcp: Some(settings.prove_tcp),
            proofs: Some(settings.proofs),
            own: Some(settings.own),
            spare: Some(settings.spare),
            sliding_logs: Some(settings.sliding_logs),
            shadow: Some(settings.shadow),
            replies: Some(settings.replies),
            leases: Some(settings.leases),
            divide: Some(settings.divide),
            log_level: settings.log_level,
        }
    }

    /// Returns these settings, but those of `before` wherever they are still the ones of `after`.
    #[must_use]
    pub fn back(&self, after: &Self, before: &Self) -> Self {
        fn back<T: PartialEq>(now: T, after: &T, before: T) -> T {
            if now == *after { before } else { now }
        }
        Self {
            ipv6_prefix: back(self.ipv6_prefix, &after.ipv6_prefix, before.ipv6_prefix),
            buckets: back(self.buckets, &after.buckets, before.buckets),
            pass_malformed: back(self.pass_malformed, &after.pass_malformed, before.pass_malformed),
            cells: back(self.cells, &after.cells, before.cells),
            sample: back(self.sample, &after.sample, before.sample),
            admissions: back(self.admissions, &after.admissions, before.admissions),
            unknown: back(self.unknown, &after.unknown, before.unknown),
            prove_tcp: back(self.prove_tcp, &after.prove_tcp, before.prove_tcp),
            proofs: back(self.proofs, &after.proofs, before.proofs),
            own: back(self.own, &after.own, before.own),
            spare: back(self.spare, &after.spare, before.spare),
            sliding_logs: back(self.sliding_logs, &after.sliding_logs, before.sliding_logs),
            shadow: back(self.shadow, &after.shadow, before.shadow),
            replies: back(self.replies, &after.replies, before.replies),
            leases: back(self.leases, &after.leases, before.leases),
            divide: back(self.divide, &after.divide, before.divide),
            log_level: back(self.log_level, &after.log_level, before.log_level),
        }
    }

    /// Returns the settings of a new instance, whose number of buckets follows the machine.
    #[must_use]
    pub fn of_new(&self) -> Settings {
        let buckets = self.buckets.unwrap_or_else(sizes::buckets_of_machine);
        self.or(Settings { buckets, ..Settings::default() })
    }

    /// Returns the requested settings, and the defaults for the others. Numbers of buckets and cells are those that run.
    #[must_use]
    pub fn or_defaults(&self, running: &Settings) -> Self {
        let Settings { buckets, cells, .. } = *running;
        Self::of(&self.or(Settings { buckets, cells, ..Settings::default() }))
    }

    /// Returns the requested settings, and those of `open` for the others.
    #[must_use]
    pub fn or(&self, open: Settings) -> Settings {
        Settings {
            ipv6_prefix: self.ipv6_prefix.unwrap_or(open.ipv6_prefix),
            buckets: self.buckets.unwrap_or(open.buckets),
            pass_malformed: self.pass_malformed.unwrap_or(open.pass_malformed),
            cells: self.cells.unwrap_or(open.cells),
            sample: self.sample.unwrap_or(open.sample),
            admissions: self.admissions.unwrap_or(open.admissions),
            unknown: self.unknown.unwrap_or(open.unknown),
            prove_tcp: self.prove_tcp.unwrap_or(open.prove_tcp),
            proofs: self.proofs.unwrap_or(open.proofs),
            own: self.own.unwrap_or(open.own),
            spare: self.spare.unwrap_or(open.spare),
            sliding_logs: self.sliding_logs.unwrap_or(open.sliding_logs),
            shadow: self.shadow.unwrap_or(open.shadow),
            replies: self.replies.unwrap_or(open.replies),
            leases: self.leases.unwrap_or(open.leases),
            divide: self.divide.unwrap_or(open.divide),
            log_level: self.log_level,
            ..open
        }
    }
}
