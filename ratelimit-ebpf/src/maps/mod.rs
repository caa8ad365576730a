//! Every map with its value type and accessor. No arithmetic belongs here.

pub mod all;
pub mod counts;
pub mod resize;
pub mod this_cpu;
