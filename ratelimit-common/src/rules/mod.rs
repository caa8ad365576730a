//! Rules and their precedence. What a rule's policy says belongs in `limits`.

pub mod rule;
