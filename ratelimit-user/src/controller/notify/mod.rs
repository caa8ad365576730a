//! Tells the service manager, the journal and the system log.

pub mod journal;
pub(crate) mod service_manager;
pub(crate) mod system_log;
