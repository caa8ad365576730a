//! The file that is in force: what the daemon keeps of it in memory.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use anyhow::Result;
use ratelimit_base::{files::writers, notify::service_manager};
use ratelimit_dataplane::{
    instance::read_only::View,
    program::values,
    sys::interface::{self, is_there},
};

use super::feeds::Feed;
use crate::{
    config::{
        self, Config,
        daemon::{fleet::Fleet, state::StateFile},
    },
    controller::{
        change::{applied::Applied, stacked},
        socket::request::{FileState, Unattached, UnusableList},
    },
    limit::write,
};

/// How many rules the daemon keeps in words.
const FEW: usize = 1_000;

/// What the daemon keeps of the file.
#[derive(Default)]
pub(super) struct InForce {
    /// Its interfaces.
    pub(super) interfaces: Vec<config::Interface>,
    /// Its rules with an end.
    pub(super) timed: Vec<config::Planned>,
    /// Those of its interfaces that were never attached, because they did not exist.
    awaited: Vec<String>,
    /// Those that were attached, and do not exist any more.
    gone: BTreeSet<String>,
    /// Those that are not attached because of others above or below them.
    left_off: Vec<String>,
    /// Why some of these could not be attached when no other one kept them off any more.
    failed: BTreeMap<String, String>,
    /// The files of its lists, without copies of the daemon.
    pub(super) feeds: Vec<Feed>,
    /// The file itself, and those that it names.
    files: Vec<PathBuf>,
    /// Its fleet.
    pub(super) fleet: Option<Fleet>,
    /// Where it keeps debts and bans.
    pub(super) state: Option<StateFile>,
    /// The names of its lists.
    lists: Vec<String>,
    /// Those of its lists whose files could not be used.
    unusable_lists: Vec<UnusableList>,
    /// The settings by name that it decides, also by omission.
    settings: BTreeMap<String, String>,
    /// The number of its rules that have no end.
    rules: usize,
    /// These rules and what they do, unless they are more than [`FEW`].
    few_rules: Vec<(String, String)>,
    /// Why a later state of the file was refused.
    pub(super) refused: Option<String>,
    /// What is in force, in few words.
    summary: String,
}

impl InForce {
    /// Returns what to keep of a file that was applied.
    pub(super) fn new(file: &Path, config: Config, applied: &Applied) -> Self {
        let Applied { set, unchanged, overruled, covered, allowed_instead, .. } = applied;
        let others = match overruled.len() + covered.len() + allowed_instead.len() {
            0 => String::new(),
            others => format!(", {others} not in force"),
        };
        let lasting = || config.rules.iter().filter(|rule| rule.until.is_none());
        let rules = lasting().count();
        let in_words = |rule: &config::Planned| (rule.target.to_string(), write::spec(&rule.spec));
        let few_rules = if rules <= FEW { lasting().map(in_words).collect() } else { Vec::new() };
        Self {
            settings: values::of_file(&config.requested),
            lists: config.lists.iter().map(|list| list.name.clone()).collect(),
            feeds: config.lists.iter().filter(|list| list.remote.is_none()).map(Feed::of).collect(),
            files: config.files,
            interfaces: config.interfaces,
            fleet: config.fleet,
            state: config.state,
            rules,
            few_rules,
            timed: config.rules.into_iter().filter(|rule| rule.until.is_some()).collect(),
            awaited: applied.awaited.clone(),
            gone: BTreeSet::new(),
            left_off: applied.left_off.iter().map(|left_off| left_off.name.clone()).collect(),
            failed: BTreeMap::new(),
            unusable_lists: applied.unusable_lists.clone(),
            refused: None,
            summary: format!("{} in force, rules: {}{others}", file.display(), set + unchanged),
        }
    }

    /// Returns whether the daemon waits until an interface of this name appears for the first time.
    pub(super) fn is_awaited(&self, name: &String) -> bool {
        self.awaited.contains(name)
    }

    /// Returns whether an interface is not attached because of another one.
    pub(super) fn is_left_off(&self, name: &String) -> bool {
        self.left_off.contains(name)
    }

    /// Returns the interfaces that exist, and that no other one keeps off any more.
    pub(super) fn free(&self, pins: &Path) -> Vec<config::Interface> {
        if self.left_off.is_empty() {
            return Vec::new();
        }
        let (Ok(attached), Ok(all)) = (View::attachments_in(pins), interface::list()) else { return Vec::new() };
        let present: Vec<_> = self.interfaces.iter().filter(|one| is_there(&all, &one.name)).cloned().collect();
        let (taken, _) = stacked::divide(pins, &present, &attached, &all);
        taken.into_iter().filter(|one| self.is_left_off(&one.name)).collect()
    }

    /// Records that an interface is not attached because of another one, and tells the service manager.
    pub(super) fn leave_off(&mut self, name: &String) {
        self.failed.remove(name);
        if !self.is_left_off(name) {
            self.left_off.push(name.clone());
            service_manager::ready(&self.status());
        }
    }

    /// Records why an interface could not be attached. Returns whether to report that: the daemon tries again and again
    /// to attach one that was left off.
    pub(super) fn fail(&mut self, name: &str, why: &str) -> bool {
        if !self.left_off.iter().any(|left_off| left_off == name) {
            return true;
        }
        self.failed.insert(name.to_owned(), why.to_owned()).is_none_or(|before| before != why)
    }

    /// Records that an interface does not exist any more, and tells the service manager. Returns whether it is new that it
    /// is missed.
    pub(super) fn record_gone(&mut self, name: &String) -> bool {
        let is_new = !self.is_awaited(name) && self.gone.insert(name.clone());
        if is_new {
            service_manager::ready(&self.status());
        }
        is_new
    }

    /// Records that an interface does not have to be waited for any more, and tells the service manager.
    pub(super) fn stop_waiting(&mut self, name: &String) {
        let was_gone = self.gone.remove(name);
        if was_gone || self.is_awaited(name) || self.is_left_off(name) {
            self.awaited.retain(|awaited| awaited != name);
            self.left_off.retain(|left_off| left_off != name);
            self.failed.remove(name);
            service_manager::ready(&self.status());
        }
    }

    /// Returns what is in force and what is not, in few words.
    pub(super) fn status(&self) -> String {
        let mut text = self.summary.clone();
        if !self.awaited.is_empty() {
            text += &format!(", waiting for {}", self.awaited.join(", "));
        }
        if !self.gone.is_empty() {
            text += &format!(", gone: {}", self.gone.iter().cloned().collect::<Vec<_>>().join(", "));
        }
        let (failed, by_others): (Vec<_>, Vec<_>) =
            self.left_off.iter().cloned().partition(|name| self.failed.contains_key(name));
        if !by_others.is_empty() {
            text += &format!(", not attached because of others: {}", by_others.join(", "));
        }
        if !failed.is_empty() {
            text += &format!(", not attached after a failure, tried again every 10 seconds: {}", failed.join(", "));
        }
        for list in &self.unusable_lists {
            text += &format!(", {list}");
        }
        text
    }

    /// Returns what the file requests, and which of its interfaces the instance in `pins` has.
    pub(super) fn state(&self, file: &Path, pins: &Path) -> Result<FileState> {
        let (attachments, all) = (View::attachments_in(pins)?, interface::list()?);
        let is_attached = |name: &str| attachments.iter().any(|attachment| attachment.is_on(name));
        let unattached = self.interfaces.iter().filter(|interface| !is_attached(&interface.name));
        let unattached = unattached
            .map(|interface| Unattached { interface: interface.clone(), exists: is_there(&all, &interface.name) });
        Ok(FileState {
            file: file.display().to_string(),
            interfaces: self.interfaces.clone(),
            unattached: unattached.collect(),
            settings: self.settings.clone(),
            rules: self.rules,
            refused: self.refused.clone(),
            few_rules: self.few_rules.clone(),
            lists: self.lists.clone(),
            unusable_lists: self.unusable_lists.clone(),
            remote_lists: Vec::new(),
            stops: None,
            crowdsec: None,
            last_minute: None,
            unsaved: None,
            changeable: writers::warnings(&self.files),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_off_is_tried_again_after_a_failure_and_reported_once() {
        let [eth0, eth1] = ["eth0", "eth1"].map(str::to_owned);
        let mut in_force = InForce { left_off: vec![eth0.clone()], ..InForce::default() };
        assert_eq!(in_force.status(), ", not attached because of others: eth0");
        assert!(in_force.fail(&eth0, "taken") && !in_force.fail(&eth0, "taken"));
        assert!(in_force.fail(&eth0, "no native XDP"));
        assert!(in_force.is_left_off(&eth0));
        assert_eq!(in_force.status(), ", not attached after a failure, tried again every 10 seconds: eth0");
        // Nothing tries this one again by itself.
        assert!(in_force.fail(&eth1, "taken") && in_force.fail(&eth1, "taken"));
        in_force.stop_waiting(&eth0);
        assert!(!in_force.is_left_off(&eth0) && in_force.status().is_empty());
    }
}
