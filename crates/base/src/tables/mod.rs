//! Tables of a TOML file, which know their places in it and collect problems.

pub mod files;
pub mod options;
pub mod problem;
pub mod switch;
pub mod table;
