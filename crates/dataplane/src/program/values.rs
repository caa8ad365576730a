//! The settings of an instance by name, with their values as text.
//!
//! To add a setting, add one line to `SETTINGS`, besides its fields in [`Settings`] and [`RequestedSettings`]. Its
//! default is in `Settings::default`. Messages, `status` and the daemon then know it.

use std::{collections::BTreeMap, fmt};

use ratelimit_base::text::units::PacketRate;
use ratelimit_common::limits::limit::{Rate, SECOND};
use serde::Serialize;

use crate::program::{
    requested::RequestedSettings,
    settings::{LEARNED, Settings},
};

/// One setting.
struct Setting {
    /// Its name as an option and as a key.
    name: &'static str,
    /// Returns its value as in a file.
    text: fn(&Settings) -> String,
    /// Returns whether an operator requests it.
    is_given: fn(&RequestedSettings) -> bool,
}

const SETTINGS: [Setting; 16] = [
    Setting { name: "ipv6-prefix", text: |s| s.ipv6_prefix.to_string(), is_given: |r| r.ipv6_prefix.is_some() },
    Setting { name: "max-sources", text: |s| s.buckets.to_string(), is_given: |r| r.buckets.is_some() },
    Setting { name: "cells", text: |s| count(s.cells), is_given: |r| r.cells.is_some() },
    Setting { name: "sample", text: |s| switch(s.sample), is_given: |r| r.sample.is_some() },
    Setting { name: "admissions", text: |s| per_second(s.admissions), is_given: |r| r.admissions.is_some() },
    Setting { name: "unknown", text: |s| unknown(s.unknown), is_given: |r| r.unknown.is_some() },
    Setting { name: "prove", text: |s| proof(s.prove_tcp), is_given: |r| r.prove_tcp.is_some() },
    Setting { name: "proofs", text: |s| per_second(s.proofs), is_given: |r| r.proofs.is_some() },
    Setting { name: "own", text: |s| per_second(s.own), is_given: |r| r.own.is_some() },
    Setting { name: "spare", text: |s| switch(s.spare), is_given: |r| r.spare.is_some() },
    Setting { name: "replies", text: |s| per_second(s.replies), is_given: |r| r.replies.is_some() },
    Setting { name: "max-sliding-logs", text: |s| s.sliding_logs.to_string(), is_given: |r| r.sliding_logs.is_some() },
    Setting { name: "malformed", text: |s| malformed(s.pass_malformed), is_given: |r| r.pass_malformed.is_some() },
    Setting { name: "fleet", text: |s| switch(s.leases), is_given: |r| r.leases.is_some() },
    Setting { name: "fleet start share", text: |s| switch(s.divide), is_given: |r| r.divide.is_some() },
    Setting { name: "shadow", text: |s| switch(s.shadow), is_given: |r| r.shadow.is_some() },
];

/// The settings that stay while the instance runs, unless the operator gives them.
const SIZES: [&str; 2] = ["max-sources", "cells"];

/// A setting that changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Its name, or what it is about.
    pub name: String,
    /// Its value before.
    pub before: String,
    /// Its new value.
    pub after: String,
    /// Whether the new value is the default because the file omits the setting.
    pub is_omitted: bool,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, before, after, is_omitted } = self;
        let default = if *is_omitted { " (default)" } else { "" };
        write!(f, "{name}: {before}, now {after}{default}")
    }
}

/// Returns the settings that `requested` changes, if what it omits gets its [default](RequestedSettings::or_defaults).
pub fn differences(running: &Settings, requested: &RequestedSettings) -> Vec<Difference> {
    let wanted = requested.or_defaults(running).or(*running);
    let of = |setting: &Setting| {
        let (before, after) = ((setting.text)(running), (setting.text)(&wanted));
        let is_omitted = !(setting.is_given)(requested);
        (before != after).then(|| Difference { name: setting.name.to_owned(), before, after, is_omitted })
    };
    SETTINGS.iter().filter_map(of).collect()
}

/// Returns the names of the settings that differ.
pub fn changed(before: &Settings, after: &Settings) -> Vec<&'static str> {
    let differs = |setting: &&Setting| (setting.text)(before) != (setting.text)(after);
    SETTINGS.iter().filter(differs).map(|setting| setting.name).collect()
}

/// Returns the values by name.
pub fn values(settings: &Settings) -> BTreeMap<String, String> {
    SETTINGS.iter().map(|setting| (setting.name.to_owned(), (setting.text)(settings))).collect()
}

/// Returns the values that a file decides by name: those that it has, and defaults. It decides no size that it omits.
pub fn of_file(requested: &RequestedSettings) -> BTreeMap<String, String> {
    let mut decided = values(&requested.or(Settings::default()));
    let sizes = SETTINGS.iter().filter(|setting| SIZES.contains(&setting.name) && !(setting.is_given)(requested));
    sizes.for_each(|size| drop(decided.remove(size.name)));
    decided
}

/// Returns the rate of unknown sources, `auto`, or `off` for 0.
pub fn unknown(amount: u64) -> String {
    if amount == LEARNED { "auto".to_owned() } else { per_second(amount) }
}

/// Returns a rate of packets, or `off` for 0.
pub fn per_second(amount: u64) -> String {
    if amount == 0 { "off".to_owned() } else { PacketRate(Rate { amount, period: SECOND }).to_string() }
}

fn count(number: u32) -> String {
    if number == 0 { "off".to_owned() } else { number.to_string() }
}

fn switch(is_on: bool) -> String {
    if is_on { "on" } else { "off" }.to_owned()
}

/// Returns how addresses are proven, as in a file.
pub fn proof(by_tcp: bool) -> String {
    if by_tcp { "tcp" } else { "off" }.to_owned()
}

fn malformed(passes: bool) -> String {
    if passes { "pass" } else { "drop" }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(differences: &[Difference]) -> Vec<String> {
        differences.iter().map(Difference::to_string).collect()
    }

    #[test]
    fn each_setting_that_a_request_omits_gets_its_default() {
        let running = Settings { unknown: 10_000, shadow: true, cells: 0, ..Settings::default() };
        let nothing = RequestedSettings::default();
        let all = ["unknown: 10k/s, now off (default)", "shadow: on, now off (default)"];
        assert_eq!(names(&differences(&running, &nothing)), all);
        let given = RequestedSettings { unknown: Some(5_000), shadow: Some(false), cells: Some(0), ..nothing };
        assert_eq!(names(&differences(&running, &given)), ["unknown: 10k/s, now 5000/s", "shadow: on, now off"]);
        let learned = RequestedSettings { unknown: Some(LEARNED), ..RequestedSettings::of(&running) };
        assert_eq!(names(&differences(&running, &learned)), ["unknown: 10k/s, now auto"]);
        assert!(differences(&Settings::default(), &nothing).is_empty());
    }

    #[test]
    fn sizes_that_a_file_omits_stay() {
        let running = Settings { buckets: 5_000, cells: 8, sample: false, ..Settings::default() };
        let nothing = RequestedSettings::default();
        assert_eq!(names(&differences(&running, &nothing)), ["sample: off, now on (default)"]);
        let (file, size) = (of_file(&nothing), of_file(&RequestedSettings { cells: Some(16), ..nothing }));
        assert_eq!((file.len(), file.get("cells"), file.get("max-sources")), (SETTINGS.len() - 2, None, None));
        assert_eq!((size.get("cells"), size.get("max-sources")), (Some(&"16".to_owned()), None));
    }

    #[test]
    fn every_field_of_a_request_has_a_name() {
        let defaults = Settings::default();
        let other = Settings {
            ipv6_prefix: 48,
            buckets: 5,
            cells: 8,
            sample: false,
            admissions: 5,
            unknown: 5,
            prove_tcp: true,
            proofs: 5,
            own: 5,
            spare: false,
            replies: 5,
            sliding_logs: 5,
            pass_malformed: true,
            leases: true,
            divide: true,
            shadow: true,
            ..defaults
        };
        let changed = differences(&defaults, &RequestedSettings::of(&other));
        assert_eq!(changed.len(), SETTINGS.len());
        assert!(changed.iter().all(|difference| !difference.is_omitted));
    }
}
