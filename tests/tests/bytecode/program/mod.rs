//! The program as a whole, as the verifier sees it.

mod size;
