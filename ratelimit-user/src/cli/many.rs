//! One rule for many sources: prefixes that stand on standard input, one in each line.

mod delete;
mod lines;

use std::{
    io::{self, IsTerminal as _, Write as _},
    path::Path,
    str::FromStr,
    time::Duration,
};

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use ratelimit_common::{
    identity::service::Service,
    rules::rule::{COMMAND, NEVER},
};
use serde::Serialize;

pub(super) use self::delete::{Rules, delete};
use self::lines::Nested;
use super::{
    Answer,
    change::{for_time, negative},
    output::{Output, count},
};
use crate::{
    dataplane::{
        Instance,
        rules::{
            batch::{Change, Wish},
            spec::Terms,
            target::Target,
        },
        sys::host,
    },
    prefix::Prefix,
    ssh,
};

/// What is said where there are no lines.
pub(super) const NOT_MANY: &str =
    "--skip-bad is for prefixes on standard input: give - in place of the prefix, or leave it away";

/// Rules from which on a terminal shows how far they are.
const MANY: usize = 50_000;

/// The sources of a rule, or the word for standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OneOrMany<T> {
    /// As it stands there.
    One(T),
    /// `-`.
    Many,
}

impl<T: FromStr> FromStr for OneOrMany<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        if text == "-" { Ok(Self::Many) } else { text.parse().map(Self::One) }
    }
}

/// What all the rules say.
pub(super) struct Rule<'a> {
    pub(super) service: Service,
    pub(super) terms: Terms,
    pub(super) life: Option<Duration>,
    pub(super) force: bool,
    /// Bad lines are left out, and the others are good enough.
    pub(super) skip_bad: bool,
    /// The terms in words.
    pub(super) text: &'a str,
}

#[derive(Debug, Serialize)]
struct Set {
    set: usize,
    /// How many of them took the place of one that said something else.
    replaced: usize,
    skipped: usize,
}

/// Reads the prefixes, and gives each of them the rule.
pub(super) fn set(rule: &Rule<'_>, pins: &Path, output: Output) -> Result<Answer> {
    let (prefixes, skipped) = lines::prefixes(Nested::Bad, rule.skip_bad)?;
    if prefixes.is_empty() {
        return nothing(output, NO_ADDRESS);
    }
    let expires =
        rule.life.map_or(NEVER, |life| host::now().saturating_add(u64::try_from(life.as_nanos()).unwrap_or(NEVER)));
    let wish = |(prefix, _): &(Prefix, usize)| Wish {
        target: Target::prefix(*prefix).of(rule.service),
        terms: 0,
        expires,
        origin: COMMAND,
    };
    let change =
        Change { terms: vec![rule.terms.clone()], wishes: prefixes.iter().map(wish).collect(), ..Change::default() };
    let mut instance = Instance::open(pins)?;
    let bar = bar(change.wishes.len());
    let outcome = {
        let guard = ssh::Guard::of(&instance, rule.force)?;
        instance.change(&change, &mut |done| bar.set_position(done as u64), &|tables| guard.check(tables))
    };
    bar.finish_and_clear();
    let set = Set { set: prefixes.len(), replaced: outcome?, skipped };
    output.print(&set, |out| {
        let replaced = match set.replaced {
            0 => String::new(),
            replaced => format!(" ({replaced} instead of {})", if replaced == 1 { "another" } else { "others" }),
        };
        let life = for_time(rule.life);
        writeln!(out, "{}: {}{life}{replaced}{}", count(set.set, "rule"), rule.text, left_out(skipped))
    })?;
    Ok(Answer::Done)
}

/// What is said where no line has a prefix that can be used.
const NO_ADDRESS: &str = "standard input has no address: nothing was changed";

/// Says that nothing can be done, with exit status 1: to people on standard error, which a list is not written to.
fn nothing(output: Output, message: &str) -> Result<Answer> {
    if output.json {
        return negative(output, message);
    }
    writeln!(io::stderr(), "ratelimit: {message}")?;
    Ok(Answer::Negative)
}

/// How many lines were left out, for the end of a line.
fn left_out(lines: usize) -> String {
    if lines == 0 { String::new() } else { format!(", {} left out", count(lines, "line")) }
}

/// How far it is, for whoever looks at a terminal.
fn bar(rules: usize) -> ProgressBar {
    if rules < MANY || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{wide_bar} {human_pos} of {human_len} rules");
    ProgressBar::new(rules as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
