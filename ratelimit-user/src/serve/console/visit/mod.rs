//! Who visits the pages, and what browsers send.

mod form;
mod gate;
mod sessions;

pub(super) use self::{
    form::{Form, read},
    gate::{Gate, Visitor, is_foreign},
};
