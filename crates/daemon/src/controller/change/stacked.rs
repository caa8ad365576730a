//! Which interfaces of a file are attached, if the same packets pass some of them. What a command has attached stays.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use ratelimit_common::rules::rule::CONFIG;
use ratelimit_dataplane::{
    Error,
    attach::{attachment::Attachment, chosen, program_above, twice::Twice},
    instance::read_only::View,
    sys::{
        interface::{self, Interface, is_there},
        layers::Stack,
    },
};
use serde::Serialize;

use crate::config;

/// An interface of the file that is not attached because of another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOff {
    /// Its name.
    pub name: String,
    /// Why it is not attached.
    pub why: String,
}

impl LeftOff {
    /// Returns both in words.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{} is not attached: {}", self.name, self.why)
    }

    /// Returns what the daemon would do with it.
    #[must_use]
    pub fn of_daemon(&self) -> String {
        format!("the daemon does not attach {}: {}", self.name, self.why)
    }
}

/// Divides the existing interfaces of a file into those to attach and those to leave off. `all` are the interfaces of
/// this network namespace, and `attached` those of the instance in `pins`.
#[must_use]
pub fn divide(
    pins: &Path,
    listed: &[config::Interface],
    attached: &[Attachment],
    all: &[Interface],
) -> (Vec<config::Interface>, Vec<LeftOff>) {
    let stack = Stack::of(all);
    let here = || attached.iter().filter(|attachment| attachment.mode.is_some());
    let of_command: BTreeSet<&str> = here().filter(|one| one.origin != CONFIG).map(|one| one.name.as_str()).collect();
    let is_attached: BTreeSet<&str> = here().map(|one| one.name.as_str()).collect();
    let by_others = |name: &str| {
        if of_command.contains(name) {
            return None;
        }
        if let Some(twice) = Twice::first(&stack, name, &of_command) {
            return Some(format!("{}{}", twice.reason(", which a command has attached"), twice.uncovered()));
        }
        let interface = stack.named(name).filter(|_| !is_attached.contains(name))?;
        program_above::blocked(all, interface, pins).map(|error| match error {
            Error::Above { upper, program, removal, .. } => {
                format!("{upper} above it has {program}, and the kernel then refuses every program below: {removal}")
            }
            error => error.to_string(),
        })
    };
    let mut reasons: BTreeMap<&str, String> =
        listed.iter().filter_map(|one| Some((one.name.as_str(), by_others(&one.name)?))).collect();
    let rest = listed.iter().filter(|one| !reasons.contains_key(one.name.as_str()));
    let rest: Vec<_> = rest.map(|one| (one.name.as_str(), one.shadow == Some(true))).collect();
    reasons.extend(chosen::choose(&stack, all, &rest, &of_command));
    let taken = listed.iter().filter(|one| !reasons.contains_key(one.name.as_str())).cloned().collect();
    let left_off = |one: &config::Interface| {
        Some(LeftOff { name: one.name.clone(), why: reasons.get(one.name.as_str())?.clone() })
    };
    (taken, listed.iter().filter_map(left_off).collect())
}

/// Returns which interfaces of a file cannot be attached now because of others.
///
/// # Errors
///
/// Fails like [`interface::list`] and [`View::attachments_in`].
pub fn now(pins: &Path, listed: &[config::Interface]) -> Result<Vec<LeftOff>, Error> {
    let (all, attached) = (interface::list()?, View::attachments_in(pins)?);
    let present: Vec<_> = listed.iter().filter(|one| is_there(&all, &one.name)).cloned().collect();
    Ok(divide(pins, &present, &attached, &all).1)
}
