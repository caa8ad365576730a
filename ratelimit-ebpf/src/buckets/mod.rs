//! Creates buckets and keeps them within the admission budget. The arithmetic of a bucket belongs in `meters`.

pub mod admission;
pub mod create;
pub mod handover;
