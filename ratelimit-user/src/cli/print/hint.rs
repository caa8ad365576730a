//! What a command says about the file of a daemon, and about its fleet.

use std::{
    fmt::Display,
    io::{self, Write},
    ops::Deref,
    path::Path,
};

use ratelimit_common::{
    limits::policy::Policy,
    maps::control::{FEATURE_PROVE_TCP, FEATURE_REJECT},
};
use ratelimit_daemon::{controller::socket::client, limit::short_burst};
use ratelimit_dataplane::{
    Error, Instance,
    lists::listing::BANS,
    sys::{
        interface::{self, Interface},
        largest_frame::{self, LargestFrame},
        lost_answers,
    },
};

/// Says that a rule of the file is replaced, if a daemon runs.
pub(crate) fn of_rule(out: &mut dyn Write, pins: &Path) -> io::Result<()> {
    say(out, pins, "its file has another rule there, so change the file, too, and reload")
}

/// Says that the file decides again, if a daemon runs.
pub(crate) fn of_file(out: &mut dyn Write, pins: &Path) -> io::Result<()> {
    say(out, pins, "its file decides again at the next reload, so change the file, too")
}

/// Says that the file decides about the interfaces that it names, if a daemon runs.
pub(crate) fn of_interface(out: &mut dyn Write, pins: &Path) -> io::Result<()> {
    say(out, pins, "its file decides again at the next reload for interfaces that it names, so change the file, too")
}

/// Says that the fleet decides again about a list, if a daemon runs.
pub(crate) fn of_fleet(out: &mut dyn Write, pins: &Path) -> io::Result<()> {
    say(out, pins, "its fleet sets this list again. `ratelimit fleet rules del` and `accept` in [fleet] change that")
}

/// Says that CrowdSec decides again about its list, if a daemon runs.
pub(crate) fn of_crowdsec(out: &mut dyn Write, pins: &Path) -> io::Result<()> {
    say(out, pins, "it sets this list again. `cscli decisions delete` and [crowdsec] in its file change that")
}

/// Returns a line for each of these interfaces on which answers of the program are lost, if it sends any.
pub(crate) fn lost_answers(instance: &Instance, names: &[String]) -> Result<Vec<String>, Error> {
    let answers = instance.tables.control()?.features & (FEATURE_PROVE_TCP | FEATURE_REJECT) != 0;
    Ok(if answers { lost_answers::notices(names) } else { Vec::new() })
}

/// Returns the largest frame on the interfaces of the instance, as far as this network namespace shows them.
pub(crate) fn largest_frame(instance: &Instance) -> Option<LargestFrame> {
    let (attached, all) = (instance.attachments.list().ok()?, interface::list().ok()?);
    let is_attached = |interface: &&Interface| attached.iter().any(|attachment| attachment.is_on(&interface.name));
    largest_frame::of(all.iter().filter(is_attached))
}

/// Returns that the burst of a limit of bytes holds no whole frame. The largest frame is looked up only if that matters.
pub(crate) fn short_burst(policy: &Policy, largest: &impl Deref<Target = Option<LargestFrame>>) -> Option<String> {
    short_burst::may_be(policy).then(|| short_burst::on(policy, largest.as_ref()?)).flatten()
}

/// Returns what to do about a source that has no deny of this host, and is in the list of CrowdSec.
pub(crate) fn denied_by_crowdsec(list: &str, source: &impl Display) -> String {
    format!(
        ": the list {list} has it: `cscli decisions delete --ip {source}` ends a decision, or a rule `allow` outranks it"
    )
}

/// Returns what to do about a source that has no deny of this host, and is in a list of the fleet.
pub(crate) fn denied_by_fleet(list: &str, source: &impl Display) -> String {
    if list == BANS {
        return format!(
            ": the list {list} has it, because another host denies it: `ratelimit fleet status` may name that host"
        );
    }
    format!(": the list {list} of the fleet has it: `ratelimit fleet rules del {source}` deletes a shared rule")
}

fn say(out: &mut dyn Write, pins: &Path, what: &str) -> io::Result<()> {
    if client::is_listening(pins) { writeln!(out, "a daemon runs: {what}") } else { Ok(()) }
}
