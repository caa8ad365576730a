//! Maps whose sizes change while packets arrive.

mod resize;
