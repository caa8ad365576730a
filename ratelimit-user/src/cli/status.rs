//! `ratelimit status`.

use std::{collections::BTreeMap, path::Path};

use anyhow::Result;
use ratelimit_common::{control::FEATURE_PASS_MALFORMED, reason::Reason};
use serde::Serialize;

use super::{
    Answer,
    output::{self, Output, Traffic},
};
use crate::dataplane::{Instance, attachment::Attachment, host, interface::Attached, resolve};

#[derive(Debug, Serialize)]
struct Status {
    interfaces: Vec<Interface>,
    passed: Traffic,
    dropped: Traffic,
    reasons: BTreeMap<&'static str, Traffic>,
    sources: Sources,
    ipv6_prefix: u32,
    /// What becomes of malformed and truncated packets: `drop` or `pass`.
    malformed: &'static str,
}

#[derive(Debug, Serialize)]
struct Sources {
    tracked: usize,
    /// One for each service of a source that rules are about, and for each parent.
    buckets: usize,
    capacity: u32,
}

/// An attachment in output.
#[derive(Debug, Serialize)]
pub(super) struct Interface {
    pub(super) name: String,
    /// `native`, `generic` or `offloaded`; nothing where the interface is deleted or in another network namespace.
    pub(super) mode: Option<&'static str>,
    pub(super) program_id: u32,
    #[serde(skip)]
    pub(super) is_gone: bool,
}

impl Interface {
    /// The mode, or why it cannot be told.
    pub(super) fn state(&self) -> &'static str {
        match (self.mode, self.is_gone) {
            (Some(mode), _) => mode,
            (None, true) => {
                "not attached any more (interface deleted, or program replaced): `ratelimit attach` it again"
            }
            (None, false) => "in another network namespace",
        }
    }
}

impl From<Attachment> for Interface {
    fn from(attachment: Attachment) -> Self {
        let Attachment { name, mode, is_gone, program_id, .. } = attachment;
        Self { name, mode: mode.map(Attached::name), program_id, is_gone }
    }
}

pub(super) fn run(pins: &Path, output: Output) -> Result<Answer> {
    host::check()?;
    let instance = Instance::open(pins)?;
    let tables = &instance.tables;
    let (mut passed, mut dropped) = (Traffic::default(), Traffic::default());
    let mut reasons = BTreeMap::new();
    for (reason, count) in tables.counts()? {
        let traffic = Traffic { packets: count.packets, bytes: count.bytes };
        *(if reason.passes() { &mut passed } else { &mut dropped }) += traffic;
        reasons.insert(reason.name(), traffic);
    }
    let (control, tracked) = (tables.control()?, tables.tracked()?);
    let status = Status {
        interfaces: instance.attachments.list()?.into_iter().map(Interface::from).collect(),
        passed,
        dropped,
        reasons,
        sources: Sources {
            tracked: tracked.iter().filter(|(source, bucket)| resolve::is_source(source, bucket)).count(),
            buckets: tracked.len(),
            capacity: tables.capacity()?,
        },
        ipv6_prefix: control.ipv6_prefix,
        malformed: if control.features & FEATURE_PASS_MALFORMED == 0 { "drop" } else { "pass" },
    };
    drop(instance);
    output.print(&status, |out| {
        for interface in &status.interfaces {
            writeln!(out, "{}: {}, program {}", interface.name, interface.state(), interface.program_id)?;
        }
        if status.interfaces.is_empty() {
            writeln!(out, "not attached to any interface; the rules are kept")?;
        }
        let Sources { tracked, buckets, capacity } = status.sources;
        writeln!(
            out,
            "sources: {tracked} tracked, in {buckets} of {capacity} buckets; IPv6 by /{}",
            status.ipv6_prefix
        )?;
        if status.malformed == "pass" {
            writeln!(out, "malformed packets: pass as far as their source may")?;
        }
        writeln!(out)?;
        let row = |name: &str, verdict: &str, traffic: &Traffic| {
            [name.to_owned(), verdict.to_owned(), traffic.packets.to_string(), traffic.bytes.to_string()]
        };
        let mut rows = Vec::new();
        for reason in Reason::ALL {
            let traffic = &status.reasons[reason.name()];
            if traffic.packets > 0 {
                rows.push(row(reason.name(), if reason.passes() { "passed" } else { "dropped" }, traffic));
            }
        }
        rows.push(row("all", "passed", &status.passed));
        rows.push(row("all", "dropped", &status.dropped));
        output::table(out, ["reason", "verdict", "packets", "bytes"], &rows)
    })?;
    Ok(Answer::Done)
}
