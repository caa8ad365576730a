//! Where ratelimit is attached.

use anyhow::Result;
use ratelimit_common::rules::rule::CONFIG;
use serde::Serialize;

use crate::{
    cli::output,
    dataplane::{Instance, attach::attachment::Attachment, rules::capacities, sys::interface::Attached},
};

/// An attachment in output.
#[derive(Debug, Serialize)]
pub(in crate::cli) struct Interface {
    pub(in crate::cli) name: String,
    /// `native`, `generic` or `offloaded`; nothing where the interface is deleted or in another network namespace.
    pub(in crate::cli) mode: Option<&'static str>,
    pub(in crate::cli) program_id: u32,
    /// Packets per second that it can take, for elastic limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) capacity: Option<u64>,
    /// `config` where a configuration file has asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) origin: Option<&'static str>,
    #[serde(skip)]
    pub(in crate::cli) is_gone: bool,
}

impl Interface {
    /// The mode, or why it cannot be told.
    pub(in crate::cli) fn state(&self) -> &'static str {
        match (self.mode, self.is_gone) {
            (Some(mode), _) => mode,
            (None, true) => {
                "not attached any more (interface deleted, or program replaced): `ratelimit attach` it again"
            }
            (None, false) => "in another network namespace",
        }
    }

    /// Those of an instance, by name.
    pub(in crate::cli) fn list(instance: &Instance) -> Result<Vec<Self>> {
        let of = |attachment| {
            let Attachment { name, mode, is_gone, program_id, index, origin, .. } = attachment;
            let capacity = index.map_or(Ok(None), |index| capacities::of(&instance.tables, index))?;
            let origin = (origin == CONFIG).then(|| output::origin(origin));
            Ok(Self { name, mode: mode.map(Attached::name), program_id, capacity, origin, is_gone })
        };
        instance.attachments.list()?.into_iter().map(of).collect()
    }
}
