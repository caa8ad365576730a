//! The daemon's file in the output.

use anyhow::Result;
use ratelimit_common::rules::rule::CONFIG;
use ratelimit_daemon::{
    controller::{
        change::stacked::{self, LeftOff},
        socket::request::{FileState, RemoteList, Unattached, UnusableList},
    },
    crowdsec,
};
use ratelimit_dataplane::{Instance, lists::listing};
use ratelimit_protocol::stops::State;
use serde::Serialize;

use super::{
    differences::{Difference, differences},
    interface::Interface,
};

/// The file that the daemon keeps in force.
#[derive(Debug, Serialize)]
pub(super) struct File {
    pub(super) file: String,
    /// Whether the file was refused, an interface of it is not limited, or the file of a list cannot be used.
    pub(super) degraded: bool,
    /// Why the file was refused at the last reload, so that an earlier state of it is in force.
    pub(super) refused: Option<String>,
    /// Interfaces of the file that do not carry the program.
    pub(super) unattached: Vec<Unattached>,
    /// Why some of them are not, if that is because of other interfaces.
    #[serde(skip)]
    pub(super) left_off: Vec<LeftOff>,
    /// Lists of the file whose own files could not be used.
    pub(super) unusable_lists: Vec<UnusableList>,
    /// Lists of the file that lie on servers.
    pub(super) remote_lists: Vec<RemoteList>,
    /// What else differs from the file.
    pub(super) differences: Vec<Difference>,
    /// How the daemon answers applications that ask to stop clients. None without the table in the file.
    pub(super) stops: Option<State>,
    /// What is in force of CrowdSec's decisions. None without the table in the file.
    pub(super) crowdsec: Option<crowdsec::State>,
}

impl File {
    pub(super) fn read(instance: &Instance, interfaces: &[Interface], mut state: FileState) -> Result<Self> {
        let lists = listing::all(&instance.tables)?;
        state.look_up_lists(|name| lists.iter().any(|list| list.name == name && list.origin == CONFIG));
        let left_off = stacked::now(instance.pins(), &state.interfaces)?;
        let differences = differences(instance, interfaces, &state)?;
        let FileState { file, refused, unattached, unusable_lists, remote_lists, stops, crowdsec, .. } = state;
        let degraded = refused.is_some() || !unattached.is_empty() || !unusable_lists.is_empty();
        Ok(Self {
            file,
            degraded,
            refused,
            unattached,
            left_off,
            unusable_lists,
            remote_lists,
            differences,
            stops,
            crowdsec,
        })
    }
}
