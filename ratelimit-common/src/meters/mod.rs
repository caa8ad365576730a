//! Pure arithmetic of every algorithm. No maps and no rules belong here.

pub mod gcra;
pub mod interface_capacity;
pub mod meter;
pub mod sliding_log;
pub mod stages;
pub mod start;
pub mod state;
pub mod window;
