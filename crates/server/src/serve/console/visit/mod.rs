//! Who visits the pages, and what browsers send.

mod form;
mod gate;
mod own;
mod sessions;

pub(super) use self::{
    form::{Form, read},
    gate::{AGAIN, Gate, LIVE, Visitor, is_foreign},
};
