//! Maps that change between packets. `network/resize` changes their sizes under real traffic.

mod grace_period;
mod resize;
