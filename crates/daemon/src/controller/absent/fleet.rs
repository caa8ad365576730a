//! What stands in place of the host's part in a fleet in a build without the feature `fleet`. No file has its table.

/// The service.
pub mod service {
    use std::{
        path::{Path, PathBuf},
        sync::{Arc, Mutex},
        time::Duration,
    };

    use ratelimit_base::notify::journal::{Level, say};
    use ratelimit_common::rules::rule::FLEET;
    use ratelimit_protocol::fleet::Status;

    use crate::{
        config::daemon::fleet::Fleet,
        controller::{
            lists_of_others,
            socket::rules::{RulesReply, RulesRequest},
            stops,
        },
    };

    /// The longest time for a request, as in other builds.
    pub const PATIENCE: Duration = Duration::from_secs(5);
    /// The answer to requests about shared rules.
    const ABSENT: &str = "the daemon was built without `fleet`: use a build of ratelimit with all features";

    /// The place of the status, which has none.
    pub type Shown = Arc<Mutex<Option<Status>>>;

    /// Where operators ask.
    #[derive(Clone)]
    pub struct Desk;

    impl Desk {
        /// Refuses each request.
        ///
        /// # Errors
        ///
        /// Fails always.
        pub async fn ask(&self, _: RulesRequest, _: String) -> Result<RulesReply, String> {
            Err(ABSENT.to_owned())
        }
    }

    /// Deletes what a daemon of another build has left.
    pub struct Service {
        pins: PathBuf,
    }

    impl Service {
        /// Returns the service of an instance.
        pub fn of(pins: &Path, _: stops::Desk) -> Self {
            Self { pins: pins.to_owned() }
        }

        /// Joins no fleet, and deletes the lists of one that an earlier daemon was in.
        pub fn join(&mut self, _: Option<Fleet>) {
            if let Err(error) = lists_of_others::forget(&self.pins, FLEET) {
                let text = format!("fleet: lists of the fleet stay in force, which this host has left: {error}");
                say(Level::Warning, &text);
            }
        }

        /// Returns no status.
        pub fn status(&self) -> Option<Status> {
            None
        }

        /// Returns where operators ask.
        pub fn desk(&self) -> Desk {
            Desk
        }

        /// Returns the place of the status.
        pub fn shown(&self) -> Shown {
            Shown::default()
        }
    }
}
