//! Sets, replaces and deletes a list.

use std::{
    fs::File,
    io::{self, BufReader, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, anyhow, bail};
use ratelimit_base::text::{feed, units};
use ratelimit_common::rules::rule::{COMMAND, CONFIG, CROWDSEC, FLEET};
use ratelimit_daemon::ssh;
use ratelimit_dataplane::{
    Instance,
    lists::{
        action::Action,
        change::{ListChange, RequestedList},
        entries::{self, Entries},
        listing,
    },
    rules::{batch, target::Sources},
    spared::{
        renew,
        unapplied::{self, Found},
    },
};
use serde::Serialize;

use super::{how::How, import};
use crate::cli::{
    print::{
        answer::Answer,
        hint,
        list_row::Row,
        output::{Output, count},
    },
    rules::{
        change::{ENDLESS, is_endless},
        lines,
    },
};

/// The most entries that are named as not applied to what this host spares.
pub(super) const SHOWN: usize = 20;

/// Where the entries of a list come from.
pub(super) enum From<'a> {
    /// A file, or standard input for `-`.
    File(&'a str),
    /// A set of another packet filter, with this name.
    Set(&'a str, &'a import::Entries),
}

impl From<'_> {
    /// Returns it in words.
    fn place(&self) -> String {
        match *self {
            Self::File("-") => "standard input".to_owned(),
            Self::File(path) => path.to_owned(),
            Self::Set(set, _) => format!("the set {set}"),
        }
    }
}

#[derive(Debug, Serialize)]
struct Set {
    #[serde(flatten)]
    row: Row,
    /// Lines that cannot be used.
    skipped: usize,
    /// The list that was replaced. Null if there was none.
    replaced: Option<Row>,
    /// The first entries that are not applied to what this host spares.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unapplied: Vec<unapplied::Row>,
}

/// Sets a list.
pub(super) fn run(name: &str, from: &From<'_>, how: &How, pins: &Path, output: Output) -> Result<Answer> {
    let How { deny: _, rates, life, strict, force } = how;
    let (life, force) = (*life, *force);
    let action = rates.spec(Sources::Default)?.map_or(Action::Deny, |spec| Action::Limit(Box::new(spec)));
    let (entries, skipped) = read(from, *strict)?;
    if entries.is_empty() {
        bail!("{}", empty(from, name, pins));
    }
    let list = RequestedList {
        name: name.to_owned(),
        entries,
        action,
        expires: batch::change::end(life),
        origin: COMMAND,
        file: match from {
            From::File(file) => regular(file),
            From::Set(..) => None,
        },
    };
    let mut instance = Instance::open(pins)?;
    let find = |instance: &Instance| {
        Ok::<_, anyhow::Error>(listing::all(&instance.tables)?.into_iter().find(|list| list.name == name))
    };
    let before = find(&instance)?;
    let had = before.as_ref().and_then(|list| usize::try_from(list.entries()).ok()).unwrap_or_default();
    if let Some(fall) = entries::fall(had, list.entries.len()).filter(|_| !force) {
        bail!("{}: the list {name} {fall}: nothing was changed, --force sets it", from.place());
    }
    let denied = list.entries.iter().filter(|_| list.action == Action::Deny);
    let unapplied = Found::of(&renew::in_force(&instance.tables)?, denied);
    let is_of_file = before.as_ref().is_some_and(|list| list.origin == CONFIG);
    let replaced = before.map(|list| Row::of(&list));
    ssh::change_lists(&mut instance, &ListChange { set: vec![list], ..ListChange::default() }, force)?;
    let is_attached = !instance.attachments.is_empty();
    // A short life can be over by now.
    let Some(list) = find(&instance)? else { bail!("the list {name} has ended already: give a longer --for") };
    let set = Set { row: Row::of(&list), skipped, replaced, unapplied: unapplied.rows() };
    output.print(&set, |out| {
        let had_end = set.replaced.as_ref().is_some_and(|row| row.expires_in_seconds.is_some());
        let life = match life {
            Some(life) if is_endless(life) => ENDLESS.to_owned(),
            Some(life) => format!(", ends in {}", units::write_duration(life)),
            None if had_end => ", no longer ends".to_owned(),
            None => String::new(),
        };
        let replaced = set.replaced.as_ref().map_or_else(String::new, |row| {
            format!(" (replaced: {}, {})", row.action_text(), entries_text(row.entries))
        });
        let skipped = if skipped == 0 { String::new() } else { format!(", {} skipped", count(skipped, "line")) };
        writeln!(out, "{name}: {}, {}{life}{replaced}{skipped}", set.row.action_text(), entries_text(list.entries()))?;
        unapplied.lines(SHOWN).try_for_each(|line| writeln!(out, "  {line}"))?;
        if !is_attached {
            writeln!(out, "  not attached to any interface: the list takes effect at the next `ratelimit attach`")?;
        }
        if let From::Set(_, import::Entries { timed, .. }) = from
            && *timed > 0
        {
            let (end, stay) = if *timed == 1 { ("ends by itself", "stays") } else { ("end by themselves", "stay") };
            let until = if set.row.expires_in_seconds.is_some() { " until the list ends" } else { "" };
            writeln!(out, "  {} {end} in the set, but {stay} in the list{until}", entries_text(*timed as u64))?;
        }
        if is_of_file { hint::of_file(out, pins) } else { Ok(()) }
    })?;
    Ok(Answer::Done)
}

/// Returns a number of entries with its noun.
pub(super) fn entries_text(entries: u64) -> String {
    format!("{entries} {}", if entries == 1 { "entry" } else { "entries" })
}

/// Reads a list. Names the lines that cannot be used, and returns their number.
fn read(from: &From<'_>, strict: bool) -> Result<(Entries, usize)> {
    let place = from.place();
    let feed = match *from {
        From::File("-") => feed::read(io::stdin().lock()),
        From::File(path) => feed::read(BufReader::new(File::open(path).with_context(|| path.to_owned())?)),
        From::Set(_, entries) => feed::read(entries.text.as_bytes()),
    };
    let no_list = |error| anyhow!("{place}: this is no list: {error}: nothing was changed");
    let feed = feed.map_err(|error| anyhow!("{place} {error}: nothing was changed, {}", error.advice()))?;
    let (entries, bad) = entries::of_feed(feed).map_err(no_list)?;
    lines::report(bad.iter())?;
    if strict && !bad.is_empty() {
        bail!(
            "{place}: {} cannot be used: nothing was changed, without --strict they are skipped",
            count(bad.len(), "line")
        );
    }
    Ok((entries, bad.len()))
}

/// Returns why a list without entries is not set, and how the list of this name is deleted, if there is one.
fn empty(from: &From<'_>, name: &str, pins: &Path) -> String {
    let lists = Instance::open(pins).and_then(|instance| listing::all(&instance.tables)).unwrap_or_default();
    let hint = match lists.iter().any(|list| list.name == name) {
        true => format!(", `ratelimit list del {name}` deletes the list"),
        false => String::new(),
    };
    format!("{} has no address: nothing was changed{hint}", from.place())
}

/// Returns the absolute path of a regular file.
fn regular(file: &str) -> Option<PathBuf> {
    let path = Path::new(file).canonicalize().ok().filter(|_| file != "-")?;
    path.is_file().then_some(path)
}

/// Deletes a list.
pub(super) fn delete(name: &str, if_exists: bool, force: bool, pins: &Path, output: Output) -> Result<Answer> {
    #[derive(Serialize)]
    struct Deleted<'a> {
        deleted: Option<&'a str>,
    }
    let mut instance = Instance::open(pins)?;
    let Some(list) = listing::all(&instance.tables)?.into_iter().find(|list| list.name == name) else {
        output.print(&Deleted { deleted: None }, |out: &mut dyn Write| writeln!(out, "there is no list {name}"))?;
        return Ok(if if_exists { Answer::Unchanged } else { Answer::Negative });
    };
    ssh::change_lists(&mut instance, &ListChange { deleted: vec![name.to_owned()], ..ListChange::default() }, force)?;
    output.print(&Deleted { deleted: Some(name) }, |out| {
        writeln!(out, "{name}: list deleted with {}", entries_text(list.entries()))?;
        match list.origin {
            CONFIG => hint::of_file(out, pins),
            FLEET => hint::of_fleet(out, pins),
            CROWDSEC => hint::of_crowdsec(out, pins),
            _ => Ok(()),
        }
    })?;
    Ok(Answer::Done)
}
