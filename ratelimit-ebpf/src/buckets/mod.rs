//! Creates buckets within the admission budget, and hands debt from cells over to them. The arithmetic of a bucket
//! belongs in `meters`.
//!
//! An inserted bucket counts only if the map shows it afterwards: another CPU may have been first.

pub mod create;
pub mod start;
