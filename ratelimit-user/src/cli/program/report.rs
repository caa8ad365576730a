//! Output of `ratelimit attach`.

use std::{cell::LazyCell, time::Duration};

use anyhow::Result;
use ratelimit_base::text::{prefix::Prefix, units};
use ratelimit_common::maps::control::FEATURE_ELASTIC;
use ratelimit_daemon::{controller::change::undo::Done, limit::write, settings::SettingsArguments};
use ratelimit_dataplane::{
    Instance,
    attach::undo::AttachUndo,
    rules::{capacities, list, target::Target},
    sys::joined_packets,
};
use serde::Serialize;

use crate::cli::{
    print::{
        hint,
        in_shadow::InShadow,
        output::{Output, allowed_line},
        policy_row::PolicyRow,
    },
    show::status::interface::Interface,
};

/// The arguments that the output repeats.
pub(super) struct Report<'a> {
    /// The interfaces that were named.
    pub(super) named: &'a [String],
    /// Whether generic mode is allowed where the driver has no native XDP.
    pub(super) may_fall_back: bool,
    /// Packets per second; 0 for none.
    pub(super) capacity: Option<u64>,
    pub(super) settings: &'a SettingsArguments,
    /// Whether the instance is new.
    pub(super) is_new: bool,
    /// Time until everything is undone, unless it is confirmed.
    pub(super) confirm: Option<Duration>,
}

#[derive(Debug, Serialize)]
struct Attached {
    interfaces: Vec<Interface>,
    allowed_ssh: Option<String>,
    default: Option<PolicyRow>,
    /// The default limit that was replaced.
    replaced: Option<String>,
    /// Rules besides the default.
    rules: usize,
    /// Time until everything is undone, unless it is confirmed.
    #[serde(skip_serializing_if = "Option::is_none")]
    confirm_within_seconds: Option<u64>,
}

/// Prints the result.
pub(super) fn print(about: &Report<'_>, instance: &Instance, done: &Done, output: Output) -> Result<()> {
    let (default, others): (Vec<_>, Vec<_>) =
        list::list(&instance.tables)?.into_iter().partition(|rule| rule.target == Target::DEFAULT);
    let now = default.first().map(|rule| PolicyRow::of_limit(&rule.spec));
    let short = default.first().map(|rule| write::spec(&rule.spec));
    let before = done.default.as_ref().and_then(|(_, before)| before.as_ref()).map(|rule| write::spec(&rule.spec));
    let attached = Attached {
        interfaces: Interface::list(instance)?,
        allowed_ssh: done.allowed_ssh.first().map(Prefix::to_string),
        replaced: before.filter(|before| Some(before) != short.as_ref()),
        default: now,
        rules: others.len(),
        confirm_within_seconds: about.confirm.map(|time| time.as_secs()),
    };
    // With --shadow, either all interfaces are in shadow, or the named ones alone.
    let settings = instance.settings()?;
    let is_shadow = settings.shadow;
    let chosen = about.settings.chosen(&settings).filter(|_| about.is_new);
    let is_on_alone = about.settings.requests_shadow() && !is_shadow;
    let answers = hint::lost_answers(instance, about.named)?;
    let ends_shadow = about.settings.ends_shadow();
    let in_shadow = if ends_shadow { Some(InShadow::read(&instance.tables)?) } else { None };
    let is_elastic = instance.tables.control()?.features & FEATURE_ELASTIC != 0;
    let has_no_capacity = is_elastic && !capacities::is_any(&instance.tables)?;
    let largest = LazyCell::new(|| hint::largest_frame(instance));
    let short_burst = default.first().and_then(|rule| hint::short_burst(&rule.spec.policy, &largest));
    output.print(&attached, |out| {
        for interface in &attached.interfaces {
            let name = &interface.name;
            let is_generic = interface.mode == Some("generic") && about.named.contains(name) && about.may_fall_back;
            let undo = done.added.iter().find(|undo| undo.name() == name);
            let why = match undo {
                _ if !is_generic => String::new(),
                Some(_) => ": its driver has no native XDP, so it is slower".to_owned(),
                None => format!(
                    ", as before (to try native mode: `ratelimit detach {name}`, then `ratelimit attach {name} --mode auto`)"
                ),
            };
            if let Some(program) = undo.and_then(AttachUndo::replaced) {
                writeln!(out, "{}: ratelimit has taken the place of {program}", interface.name)?;
            }
            match interface.mode {
                Some(mode) => writeln!(out, "{}: attached, {mode}{why}", interface.name)?,
                None => writeln!(out, "{}: {}", interface.name, interface.state())?,
            }
        }
        for notice in joined_packets::notices(about.named).into_iter().chain(answers) {
            writeln!(out, "{notice}")?;
        }
        if let Some(peer) = &attached.allowed_ssh {
            writeln!(out, "{}", allowed_line(peer))?;
        }
        match (&attached.default, attached.rules) {
            (Some(limit), _) => {
                let before = attached.replaced.as_ref();
                let replaced = before.map_or_else(String::new, |before| format!(" (replaced: {before})"));
                writeln!(out, "default: {}{replaced}", limit.text)?;
                if let Some(hint) = &short_burst {
                    writeln!(out, "  {hint}")?;
                }
            }
            (None, 0) => writeln!(out, "default: no limit (to set one: `ratelimit limit set default --packets RATE`)")?,
            (None, _) => writeln!(out, "default: no limit")?,
        }
        if attached.rules != 0 {
            let rules = attached.rules;
            writeln!(out, "rules in force: {rules} (`ratelimit limit list`, `allow list`, `deny list`)")?;
        }
        if let Some(per_second) = about.capacity {
            let capacity = if per_second == 0 { "none".to_owned() } else { format!("{per_second}/s") };
            writeln!(out, "capacity: {capacity} on {}", about.named.join(", "))?;
            if has_no_capacity {
                writeln!(out, "no interface has a capacity: elastic limits act as hard limits")?;
            }
        }
        for line in about.settings.lines(if is_on_alone { about.named } else { &[] }) {
            writeln!(out, "{line}")?;
        }
        if let Some(sizes) = &chosen {
            writeln!(out, "{sizes}")?;
        }
        if let Some(limits) = &in_shadow {
            limits.write(out)?;
        }
        if is_shadow && !about.settings.requests_shadow() {
            writeln!(out, "shadow mode: every packet passes (to enforce: `ratelimit set --shadow off`)")?;
        }
        if about.is_new && about.settings.could_limit_unknown() {
            writeln!(
                out,
                "unknown sources: not limited (against floods from forged addresses: `ratelimit set --unknown auto`)"
            )?;
        }
        if let Some(time) = about.confirm {
            let time = units::write_duration(time);
            writeln!(out, "everything is undone in {time}, unless `ratelimit confirm` comes first")?;
        }
        Ok(())
    })
}
