//! The interfaces of an instance in the output.

use anyhow::Result;
use ratelimit_common::rules::rule::CONFIG;
use ratelimit_dataplane::{
    Instance,
    attach::attachment::Attachment,
    rules::capacities,
    sys::interface::{self, Attached},
};
use serde::Serialize;

use crate::cli::print::output;

/// An attached interface.
#[derive(Debug, Serialize)]
pub(crate) struct Interface {
    pub(crate) name: String,
    /// `native`, `generic` or `offloaded`. None if the interface is deleted or in another network namespace.
    pub(crate) mode: Option<&'static str>,
    pub(crate) program_id: u32,
    /// Packets per second that it can take in total, for elastic limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) capacity: Option<u64>,
    /// Whether its packets pass in shadow, although those of others may not.
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) shadow: bool,
    /// `config` if a configuration file attached it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) origin: Option<&'static str>,
    #[serde(skip)]
    pub(crate) is_gone: bool,
    /// What to do if it is not attached any more. `doctor` advises the same.
    #[serde(skip)]
    pub(crate) advice: String,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl Interface {
    /// Returns the mode, or why it is unknown.
    pub(crate) fn state(&self) -> &'static str {
        match (self.mode, self.is_gone) {
            (Some(mode), _) => mode,
            (None, true) => "no longer attached, because the interface was deleted or its program replaced",
            (None, false) => "in another network namespace",
        }
    }

    /// Returns the interfaces of an instance, by name.
    pub(crate) fn list(instance: &Instance) -> Result<Vec<Self>> {
        let attachments = instance.attachments.list()?;
        let all = if attachments.iter().any(|one| one.is_gone) { interface::list()? } else { Vec::new() };
        let of = |attachment: Attachment| {
            let shadow = attachment.is_shadow();
            let Attachment { name, mode, is_gone, program_id, index, origin, .. } = attachment;
            let capacity = index.map_or(Ok(None), |index| capacities::of(&instance.tables, index))?;
            let origin = (origin == CONFIG).then(|| output::origin(origin));
            let advice = match all.iter().find(|interface| interface.name == name) {
                Some(found) if found.program.is_some() => format!("run `ratelimit attach {name} --replace`"),
                Some(_) => format!("run `ratelimit attach {name}` again"),
                None => format!("run `ratelimit detach {name}`, or attach to it when it is back"),
            };
            Ok(Self { name, mode: mode.map(Attached::name), program_id, capacity, shadow, origin, is_gone, advice })
        };
        attachments.into_iter().map(of).collect()
    }
}
