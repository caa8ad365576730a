//! Rules and their precedence. The content of a rule's policy belongs in `limits`.

pub mod ban;
pub mod comment;
pub mod precedence;
pub mod rule;
