//! Which interfaces of a file are attached, if some are above others. Of two that the same packets pass, the lower one
//! is: its program comes first, and sees what a bridge forwards. What a command has attached stays.

use std::path::Path;

use ratelimit_common::rules::rule::CONFIG;
use ratelimit_dataplane::{
    Error,
    attach::{
        attachment::Attachment,
        twice::{self, Twice},
    },
    instance::read_only::View,
    sys::interface::{self, Interface, is_there},
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
    let of_command = |attachment: &&Attachment| attachment.mode.is_some() && attachment.origin != CONFIG;
    let is_of_command = |name: &str| attached.iter().filter(of_command).any(|attachment| attachment.is_on(name));
    let is_attached = |name: &str| attached.iter().any(|attachment| attachment.is_on(name));
    let by_others = |name: &str| {
        if is_of_command(name) {
            return None;
        }
        let mut commands = attached.iter().filter(of_command);
        if let Some(twice) = commands.find_map(|other| Twice::of(all, name, &other.name)) {
            return Some(format!("{}{}", twice.reason(", which a command has attached"), twice.uncovered()));
        }
        let interface = all.iter().find(|interface| interface.name == name).filter(|_| !is_attached(name))?;
        twice::blocked(all, interface, pins).map(|error| match error {
            Error::Above { upper, program, removal, .. } => {
                format!("{upper} above it has {program}, and the kernel then refuses every program below: {removal}")
            }
            error => error.to_string(),
        })
    };
    let (mut left_off, mut rest) = (Vec::new(), Vec::new());
    for one in listed {
        match by_others(&one.name) {
            Some(why) => left_off.push(LeftOff { name: one.name.clone(), why }),
            None => rest.push(one.clone()),
        }
    }
    let below = |one: &config::Interface| {
        let mut twice = rest.iter().filter_map(|other| Twice::of(all, &one.name, &other.name));
        twice.find(|twice| twice.is_above && !is_of_command(&one.name))
    };
    let mut taken = Vec::new();
    for one in &rest {
        match below(one) {
            Some(twice) => {
                let why = format!("{}{}", twice.reason(""), twice.uncovered());
                left_off.push(LeftOff { name: one.name.clone(), why });
            }
            None => taken.push(one.clone()),
        }
    }
    (taken, left_off)
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
