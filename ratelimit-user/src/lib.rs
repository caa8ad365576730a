//! The command `ratelimit`: parses and prints, one file for each command, checks the host (`doctor`) and judges captures
//! (`replay`). What it does stands in the crates below `crates/`.

pub mod cli;
pub mod doctor;
mod replay;
