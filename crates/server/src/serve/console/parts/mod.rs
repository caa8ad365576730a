//! Parts of pages. They ask nobody.

pub(super) mod difference;
pub(super) mod fields;
pub(super) mod packet_fields;
pub(super) mod packet_page;
pub(super) mod packet_preview;
pub(super) mod page;
pub(super) mod plot;
pub(super) mod preview;
