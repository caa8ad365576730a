//! The packet path: one room per stage, each of which imports only from the rooms below it.
//!
//! From top to bottom: `decide`, `overlimit`, `proofs`, `connections`, `limits`, `rules`, `telemetry`, `buckets`, `cells`, `shares`, `reply`, `meters`,
//! `parse`, `packet`, `maps`, `bpf`. Everything also compiles for the host, where its pure parts are tested.
#![no_std]
#![cfg_attr(target_arch = "bpf", feature(core_intrinsics, asm_experimental_arch))]
#![cfg_attr(
    target_arch = "bpf",
    expect(internal_features, reason = "bpf has compare-and-exchange only as an intrinsic")
)]

#[cfg(test)]
extern crate std;

pub mod bpf;
pub mod buckets;
pub mod cells;
pub mod connections;
pub mod decide;
pub mod limits;
pub mod maps;
pub mod meters;
pub mod overlimit;
pub mod packet;
pub mod parse;
pub mod proofs;
pub mod reply;
pub mod rules;
pub mod shares;
pub mod telemetry;
