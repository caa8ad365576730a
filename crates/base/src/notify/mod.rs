//! Sends messages to the service manager, to the journal (standard error) and to the system log. The texts belong to
//! the callers.

pub mod journal;
pub mod service_manager;
pub mod system_log;
