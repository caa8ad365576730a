//! Changes of single rules that an operator asks for, by a command or in the console: new limits, changes of limits that
//! exist, deletions, and bans that fill a prefix. How an answer is written belongs to the rooms above.

pub mod deletion;
pub mod filled;
pub mod limit;
pub mod request;
