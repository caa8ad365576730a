//! Commands about the configuration file and the daemon that applies it.

pub(crate) mod check;
pub(crate) mod reload;
pub(crate) mod run;
pub(crate) mod save;
pub(crate) mod serve;
mod warnings;

use ratelimit_daemon::config::RequestTables;
use ratelimit_server::config as requests;

/// How the configuration file is checked for requests.
pub(crate) const REQUEST_TABLES: RequestTables = requests::checked;
