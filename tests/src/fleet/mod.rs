//! A fleet of simulated hosts that share the limit of one source. Only the share function is the product's.

mod engine;
mod host;
mod run;
pub mod scenario;

pub use run::Run;
