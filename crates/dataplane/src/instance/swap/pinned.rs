//! The pinned parts of an instance, which a swap replaces.

use std::path::PathBuf;

use ratelimit_common::maps::control::FEATURE_FRONT;

use crate::{
    Error,
    attach::attachment::Attachments,
    program::{programs::Programs, settings::Settings},
    readings::gauges,
    tables::open::Tables,
};

/// The maps and links of an instance. The caller has its lock.
pub struct Pinned {
    pub pins: PathBuf,
    /// Rules, buckets and counters.
    pub tables: Tables,
    /// The interfaces.
    pub attachments: Attachments,
}

impl Pinned {
    /// Returns the pinned programs.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if one cannot be opened.
    pub fn programs(&self) -> Result<Programs, Error> {
        Programs::from_pins(&self.pins)
    }

    /// Returns the settings of the running program that outlive its load.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses.
    pub fn settings(&self) -> Result<Settings, Error> {
        let control = self.tables.control()?;
        let cells = if control.features & FEATURE_FRONT == 0 { 0 } else { self.tables.front.open()?.len() };
        Ok(Settings::running(&control, gauges::max_sources(&self.tables)?, cells))
    }
}
