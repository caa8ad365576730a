//! Maps whose sizes change between packets. `network/resize` changes them under real traffic.

mod resize;
