//! Commands that put the kernel program on interfaces, keep it there, or remove it. What they set besides belongs to
//! `rules`.

pub(crate) mod attach;
pub(crate) mod confirm;
pub(crate) mod detach;
mod follow;
mod report;
pub(crate) mod set;
pub(crate) mod upgrade;
