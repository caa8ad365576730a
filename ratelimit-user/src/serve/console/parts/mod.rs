//! Parts of pages. They ask nobody.

pub(super) mod difference;
pub(super) mod fields;
pub(super) mod page;
pub(super) mod plot;
pub(super) mod preview;
