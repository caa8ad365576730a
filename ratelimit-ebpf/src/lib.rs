//! The packet's way, one file per step. Everything here also compiles for the host, where its pure parts are tested.
#![no_std]
#![cfg_attr(target_arch = "bpf", feature(core_intrinsics))]
#![cfg_attr(
    target_arch = "bpf",
    expect(internal_features, reason = "bpf has compare-and-exchange only as an intrinsic")
)]

pub mod account;
pub mod admission;
pub mod algorithm;
pub mod allowance;
pub mod apart;
pub mod atomic;
pub mod ban;
pub mod both;
pub mod bucket;
pub mod capacity;
pub mod charge;
pub mod clock;
pub mod cost;
pub mod counts;
pub mod cpu;
pub mod discovery;
pub mod entry;
pub mod events;
pub mod extensions;
pub mod front;
pub mod fronts;
pub mod identity;
pub mod ipv4;
pub mod ipv6;
pub mod levels;
pub mod limiter;
pub mod limits;
pub mod log;
pub mod maps;
pub mod matched;
pub mod moving;
pub mod notes;
pub mod offence;
pub mod overrun;
pub mod own;
pub mod packet;
pub mod pair;
pub mod parents;
pub mod parse;
pub mod payment;
pub mod reply;
pub mod rules;
pub mod sample;
pub mod scatter;
pub mod services;
pub mod settings;
pub mod strangers;
pub mod sums;
pub mod tracking;
pub mod verdict;
pub mod visit;
pub mod windows;
