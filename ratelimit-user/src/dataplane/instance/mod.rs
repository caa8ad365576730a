//! One instance: its pins are opened, read and changed here. Single maps belong in `tables`.

pub mod daemon_lock;
pub mod open;
pub mod read_only;
pub mod swap;
