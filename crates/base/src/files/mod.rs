//! Files that are read and written with care: locked, replaced as a whole, or secret.

pub mod damaged;
pub mod guarded;
pub mod lock;
pub mod named;
pub mod secret;
pub mod writers;
