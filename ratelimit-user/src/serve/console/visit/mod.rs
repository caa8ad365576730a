//! Who visits the pages, and what browsers send.

mod form;
mod gate;
mod sessions;

pub(super) use self::{
    form::{Form, read},
    gate::{AGAIN, Gate, Visitor, is_foreign},
};
